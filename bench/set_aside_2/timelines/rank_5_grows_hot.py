"""Of eight devices that of rank 5 gets slower from step to step, as if it heats up; in the twin all stay cool."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec, Straggler

LABEL = Label(
    cause="machine/throttling",
    says=("rank 5", "throttl", "clock", "slow", "straggler"),
    ranks=8,
    rank=5,
    pattern="some steps",
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    hot = tuple(Straggler(rank=5, extra_us=3_000.0 * (step - 1), where="compute", step=step) for step in range(2, 8))
    return JobSpec(ranks=8, steps=8, layers=8, step_compute_us=16_000, stragglers=hot if flawed else (), seed=309)
