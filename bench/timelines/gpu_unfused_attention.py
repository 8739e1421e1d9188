"""Attention as two products with a mask and a softmax between them; the twin's is fused."""

from bench.label import Label
from tests.support.traces.synthetic import Faults, JobSpec

LABEL = Label(cause="kernels/unfused_attention", says=("attention", "scaled_dot_product"), style="gpu")


def specs(flawed: bool) -> JobSpec:
    faults = Faults(unfused_attention=True) if flawed else Faults()
    return JobSpec(ranks=1, layers=8, step_compute_us=20_000, loader_workers=True, faults=faults)
