"""The data loader of rank 3 takes 7 ms longer in every step; in the twin all are alike."""

from bench.label import Label
from tests.support.traces.synthetic import JobSpec, Straggler

LABEL = Label(cause="input/slow_storage_of_one_rank", says=("rank 3",), ranks=4, rank=3, style="gpu")


def specs(flawed: bool) -> JobSpec:
    stragglers = (Straggler(rank=3, extra_us=7_000, where="input"),) if flawed else ()
    return JobSpec(ranks=4, layers=8, step_compute_us=20_000, loader_workers=True, stragglers=stragglers)
