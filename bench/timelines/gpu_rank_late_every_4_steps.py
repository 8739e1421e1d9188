"""Rank 0 writes for 30 ms in every fourth step; in the twin it does not."""

from bench.label import Label
from tests.support.traces.synthetic import JobSpec, Straggler

LABEL = Label(
    cause="host/slow_host_of_one_rank", says=("rank 0",), ranks=4, rank=0, pattern="every 4 steps", style="gpu"
)


def specs(flawed: bool) -> JobSpec:
    stragglers = (Straggler(rank=0, extra_us=30_000, where="host", every=4),) if flawed else ()
    return JobSpec(ranks=4, layers=8, step_compute_us=20_000, loader_workers=True, steps=8, stragglers=stragglers)
