"""From the fifth step on the device of rank 2 is half as fast, as when it overheats; the twin stays cool."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec, Straggler

LABEL = Label(
    cause="machine/throttling",
    says=("rank 2", "throttl", "clock", "slow", "straggler"),
    ranks=4,
    rank=2,
    pattern="some steps",
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    hot = tuple(Straggler(rank=2, extra_us=10_000, where="compute", step=step) for step in range(4, 8))
    return JobSpec(ranks=4, steps=8, layers=8, step_compute_us=12_000, stragglers=hot if flawed else (), seed=111)
