"""Python of rank 6 pauses before every third step and seven ranks wait for it; nobody pauses in the twin."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec, Straggler

LABEL = Label(
    cause="host/slow_host_of_one_rank",
    says=("rank 6", "host", "Python", "straggler", "late"),
    ranks=8,
    rank=6,
    pattern="every 3 steps",
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    late = (Straggler(rank=6, extra_us=14_000, where="host", every=3),)
    return JobSpec(ranks=8, steps=9, layers=6, step_compute_us=13_000, stragglers=late if flawed else (), seed=305)
