"""Rank 6 stops in Python for 25 ms in one of eight steps; the twin does not stop."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec, Straggler

LABEL = Label(
    cause="host/pause_in_one_step",
    says=("rank 6", "pause", "host", "Python", "step 4", "garbage"),
    ranks=8,
    rank=6,
    pattern="some steps",
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    pause = (Straggler(rank=6, extra_us=25_000, where="host", step=4),)
    return JobSpec(ranks=8, steps=8, layers=8, step_compute_us=14_000, stragglers=pause if flawed else (), seed=109)
