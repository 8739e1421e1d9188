"""A model in fp64 by accident; the twin is in bf16."""

from bench.label import Label
from tests.support.traces.synthetic import Faults, JobSpec

LABEL = Label(cause="kernels/fp64", says=("float64", "fp64", "double"), style="gpu")


def specs(flawed: bool) -> JobSpec:
    faults = Faults(precision="fp64") if flawed else Faults()
    return JobSpec(ranks=1, layers=8, step_compute_us=8_000, loader_workers=True, faults=faults)
