"""The device of rank 2 computes 8 ms longer in every step; in the twin all are alike."""

from bench.label import Label
from tests.support.traces.synthetic import JobSpec, Straggler

LABEL = Label(cause="communication/rank_computes_longer", says=("rank 2",), ranks=4, rank=2, style="gpu")


def specs(flawed: bool) -> JobSpec:
    stragglers = (Straggler(rank=2, extra_us=8_000),) if flawed else ()
    return JobSpec(ranks=4, layers=8, step_compute_us=20_000, loader_workers=True, stragglers=stragglers)
