"""The workers of the data loader are too few, and each step waits 7 ms for them; the twin's keep up."""

from bench.label import Label
from tests.support.traces.synthetic import JobSpec

LABEL = Label(cause="input/too_few_workers", says=("num_workers", "worker"), style="gpu")


def specs(flawed: bool) -> JobSpec:
    return JobSpec(ranks=1, layers=8, step_compute_us=20_000, loader_workers=True, input_us=7_000 if flawed else 80)
