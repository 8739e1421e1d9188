"""Gradients are exchanged after each of eight micro-batches; the twin does so after the last."""

from bench.label import Label
from tests.support.traces.synthetic import Faults, JobSpec

LABEL = Label(cause="communication/accumulation_without_no_sync", says=("no_sync", "accumulat"), ranks=4, style="gpu")


def specs(flawed: bool) -> JobSpec:
    faults = Faults(reduce_every_microbatch=True) if flawed else Faults()
    return JobSpec(
        ranks=4,
        layers=8,
        step_compute_us=40_000,
        loader_workers=True,
        microbatches=8,
        buckets=2,
        collective_bytes=1 << 28,
        faults=faults,
    )
