"""Two nodes reduce their gradients by hand after the backward pass; the twin reduces them during it. Sixteen ranks."""

from bench.label import Label
from tests.support.traces.faults import Faults
from tests.support.traces.jobspec import JobSpec

LABEL = Label(
    cause="communication/all_reduce_after_backward",
    says=("after the backward", "overlap", "exposed", "all-reduce", "all_reduce"),
    ranks=16,
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    return JobSpec(
        ranks=16,
        steps=4,
        layers=12,
        step_compute_us=30_000,
        buckets=12,
        collective_bytes=24 << 20,
        network_gb_per_s=45,
        faults=Faults(late_all_reduce=flawed),
        seed=306,
    )
