"""Gradients are reduced by hand after the backward pass; the twin overlaps them bucket by bucket."""

from bench.label import Label
from tests.support.traces.synthetic import Faults, JobSpec

LABEL = Label(
    cause="communication/reduced_after_backward",
    says=("backward", "DistributedDataParallel", "overlap"),
    ranks=4,
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    faults = Faults(late_all_reduce=True) if flawed else Faults()
    return JobSpec(
        ranks=4,
        layers=8,
        step_compute_us=20_000,
        loader_workers=True,
        buckets=8,
        collective_bytes=1 << 27,
        faults=faults,
    )
