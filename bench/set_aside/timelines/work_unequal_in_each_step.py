"""Texts differ in length, and in each step some other rank has the longest to compute; the twin has equal work."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec, Straggler

LABEL = Label(
    cause="input/imbalanced_by_length",
    says=("imbalance", "unequal", "uneven", "length", "straggler", "slowest rank"),
    ranks=8,
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    longest = tuple(
        Straggler(rank=rank, extra_us=extra, where="compute", step=step)
        for step in range(8)
        for rank, extra in (((5 * step + 2) % 8, 7_000), ((3 * step + 1) % 8, 3_000))
    )
    return JobSpec(ranks=8, steps=8, layers=8, step_compute_us=14_000, stragglers=longest if flawed else (), seed=110)
