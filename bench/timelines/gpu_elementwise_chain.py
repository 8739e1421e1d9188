"""GELU written as six elementwise operators; the twin calls one."""

from bench.label import Label
from tests.support.traces.synthetic import Faults, JobSpec

LABEL = Label(cause="kernels/elementwise_chain", says=("fuse", "elementwise"), style="gpu")


def specs(flawed: bool) -> JobSpec:
    faults = Faults(unfused_gelu=True) if flawed else Faults()
    return JobSpec(ranks=1, layers=8, step_compute_us=20_000, loader_workers=True, faults=faults)
