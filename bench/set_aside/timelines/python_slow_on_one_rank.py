"""Python of rank 0 pauses 5 ms before each forward pass, for it alone writes logs; the twin does not pause."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec, Straggler

LABEL = Label(
    cause="host/one_rank_does_more",
    says=("rank 0", "host", "Python", "straggler"),
    ranks=4,
    rank=0,
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    slow = (Straggler(rank=0, extra_us=5_000, where="host"),)
    return JobSpec(ranks=4, steps=6, layers=8, step_compute_us=12_000, stragglers=slow if flawed else (), seed=107)
