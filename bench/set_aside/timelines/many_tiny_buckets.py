"""Gradients go in 128 tiny all-reduces that pay latency each; the twin sends the same bytes in eight."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec

LABEL = Label(
    cause="communication/tiny_buckets",
    says=("bucket", "small collective", "latency", "small message"),
    ranks=16,
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    buckets = 128 if flawed else 8
    return JobSpec(
        ranks=16,
        steps=4,
        layers=128,
        step_compute_us=12_000,
        launch_us=2,
        buckets=buckets,
        collective_bytes=(32 << 20) // buckets,
        collective_latency_us=110,
        seed=114,
    )
