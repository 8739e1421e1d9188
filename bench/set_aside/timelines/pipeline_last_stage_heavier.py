"""The last pipeline stage also holds the large head and takes 60 % longer; the twin has equal stages."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec, ParallelSizes, Straggler

LABEL = Label(
    cause="communication/unequal_stages",
    says=("stage", "pipeline", "balance", "unequal", "uneven"),
    ranks=4,
    rank=3,
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    head = (Straggler(rank=3, extra_us=12_000, where="compute"),)
    return JobSpec(
        ranks=4,
        steps=4,
        layers=8,
        layout=ParallelSizes(pp=4),
        microbatches=12,
        step_compute_us=20_000,
        stragglers=head if flawed else (),
        seed=121,
    )
