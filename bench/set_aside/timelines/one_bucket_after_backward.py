"""All gradients go in one all-reduce that begins only after the backward pass; the twin sends eight buckets during it."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec

LABEL = Label(
    cause="communication/all_reduce_after_backward",
    says=("all-reduce", "all_reduce", "allreduce", "overlap", "bucket", "exposed"),
    ranks=16,
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    buckets = 1 if flawed else 8
    return JobSpec(
        ranks=16,
        steps=5,
        layers=16,
        step_compute_us=20_000,
        buckets=buckets,
        collective_bytes=(256 << 20) // buckets,
        seed=113,
    )
