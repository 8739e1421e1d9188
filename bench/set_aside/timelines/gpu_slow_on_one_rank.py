"""The device of rank 11 is slower in all its kernels, as when throttled, and 15 ranks wait for it; the twin has equal devices."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec, Straggler

LABEL = Label(
    cause="machine/slow_device",
    says=("rank 11", "straggler", "slow", "clock", "throttl"),
    ranks=16,
    rank=11,
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    slow = (Straggler(rank=11, extra_us=6_000, where="compute"),)
    offsets = tuple(40.0 * (rank % 5) for rank in range(16))
    return JobSpec(
        ranks=16,
        steps=5,
        layers=8,
        step_compute_us=15_000,
        stragglers=slow if flawed else (),
        clock_offsets_us=offsets,
        seed=106,
    )
