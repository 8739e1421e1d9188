"""All gradients are in one bucket, which is reduced when the backward pass is over; the twin has eight."""

from bench.label import Label
from tests.support.traces.synthetic import JobSpec

LABEL = Label(cause="communication/exposed_all_reduce", says=("all-reduce", "bucket"), ranks=4, style="gpu")


def specs(flawed: bool) -> JobSpec:
    return JobSpec(
        ranks=4,
        layers=8,
        step_compute_us=20_000,
        loader_workers=True,
        buckets=1 if flawed else 8,
        collective_bytes=(1 << 30) if flawed else (1 << 27),
    )
