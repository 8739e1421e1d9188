"""Python of rank 1 pauses for 7 ms in every step; in the twin all are alike."""

from bench.label import Label
from tests.support.traces.synthetic import JobSpec, Straggler

LABEL = Label(cause="host/slow_host_of_one_rank", says=("rank 1",), ranks=4, rank=1, style="gpu")


def specs(flawed: bool) -> JobSpec:
    stragglers = (Straggler(rank=1, extra_us=7_000, where="host"),) if flawed else ()
    return JobSpec(ranks=4, layers=8, step_compute_us=20_000, loader_workers=True, stragglers=stragglers)
