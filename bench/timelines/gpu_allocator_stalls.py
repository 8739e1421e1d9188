"""The allocator frees and takes memory of the driver in every layer; the twin's cache has room."""

from bench.label import Label
from tests.support.traces.synthetic import Faults, JobSpec

LABEL = Label(cause="memory/allocator_stalls", says=("allocator", "cudaMalloc", "memory"), style="gpu")


def specs(flawed: bool) -> JobSpec:
    faults = Faults(allocations=40) if flawed else Faults()
    return JobSpec(ranks=1, layers=8, step_compute_us=20_000, loader_workers=True, faults=faults)
