"""All matrix products are in fp32 without tensor cores; the twin is in bf16."""

from bench.label import Label
from tests.support.traces.synthetic import Faults, JobSpec

LABEL = Label(cause="kernels/fp32_products", says=("bf16", "autocast", "fp32"), style="gpu")


def specs(flawed: bool) -> JobSpec:
    faults = Faults(precision="fp32") if flawed else Faults()
    return JobSpec(ranks=1, layers=8, step_compute_us=8_000, loader_workers=True, faults=faults)
