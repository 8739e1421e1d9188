"""The device of rank 19 takes a third longer for its kernels and 31 ranks wait for it; the twin has equal devices."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec, Straggler

LABEL = Label(
    cause="machine/slow_device",
    says=("rank 19", "straggler", "slow", "clock", "throttl"),
    ranks=32,
    rank=19,
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    slow = (Straggler(rank=19, extra_us=7_500, where="compute"),)
    return JobSpec(
        ranks=32,
        steps=3,
        layers=6,
        collective_bytes=6 << 20,
        step_compute_us=22_000,
        stragglers=slow if flawed else (),
        seed=304,
    )
