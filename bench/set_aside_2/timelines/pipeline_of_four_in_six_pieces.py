"""Four stages share six micro-batches and wait a third of the time; the twin has a hundred. Eight ranks."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec, ParallelSizes

LABEL = Label(
    cause="communication/pipeline_bubble",
    says=("bubble", "micro-batch", "microbatch", "pipeline"),
    ranks=8,
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    return JobSpec(
        ranks=8,
        steps=3,
        layers=4,
        layout=ParallelSizes(dp=2, pp=4),
        microbatches=6 if flawed else 100,
        step_compute_us=160_000,
        activation_bytes=1 << 20,
        collective_bytes=16 << 20,
        seed=308,
    )
