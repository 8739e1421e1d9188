"""Everything but the products is in fp64, from a constant of NumPy; the twin's is in bf16."""

from bench.label import Label
from tests.support.traces.synthetic import Faults, JobSpec

LABEL = Label(cause="kernels/fp64", says=("float64", "fp64", "double"), style="gpu")


def specs(flawed: bool) -> JobSpec:
    return JobSpec(
        ranks=1, layers=8, step_compute_us=20_000, loader_workers=True, faults=Faults(fp64_elementwise=flawed)
    )
