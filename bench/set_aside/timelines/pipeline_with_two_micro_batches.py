"""A pipeline of four stages runs two micro-batches and mostly waits; the twin runs sixteen."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec, ParallelSizes

LABEL = Label(
    cause="communication/pipeline_bubble",
    says=("bubble", "micro-batch", "microbatch", "pipeline"),
    ranks=4,
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    return JobSpec(
        ranks=4,
        steps=4,
        layers=8,
        layout=ParallelSizes(pp=4),
        microbatches=2 if flawed else 16,
        step_compute_us=24_000,
        seed=120,
    )
