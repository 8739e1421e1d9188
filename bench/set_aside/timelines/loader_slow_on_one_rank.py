"""The loader of rank 5 alone takes 7 ms longer in each step and the others wait in the all-reduce; the twin has equal loaders."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec, Straggler

LABEL = Label(
    cause="input/loader_of_one_rank",
    says=("rank 5", "loader", "input", "data loading"),
    ranks=8,
    rank=5,
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    slow = (Straggler(rank=5, extra_us=7_000, where="input"),)
    return JobSpec(ranks=8, steps=6, layers=8, step_compute_us=15_000, stragglers=slow if flawed else (), seed=105)
