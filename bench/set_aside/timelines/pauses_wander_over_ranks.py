"""In each step another rank's Python pauses for 6 ms, as automatic garbage collection makes it; the twin has no pauses."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec, Straggler

LABEL = Label(
    cause="host/garbage_collection",
    says=("garbage", "gc", "pause", "host", "Python"),
    ranks=8,
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    pauses = tuple(Straggler(rank=(3 * step + 1) % 8, extra_us=6_000, where="host", step=step) for step in range(8))
    return JobSpec(ranks=8, steps=8, layers=8, step_compute_us=14_000, stragglers=pauses if flawed else (), seed=108)
