"""Python computes metrics for 6 ms before each step while the device waits; the twin leaves that out."""

from bench.label import Label
from tests.support.traces.synthetic import Faults, JobSpec

LABEL = Label(cause="host/work_between_steps", says=("between", "host work", "Python"), style="gpu")


def specs(flawed: bool) -> JobSpec:
    faults = Faults(host_work_us=6_000) if flawed else Faults()
    return JobSpec(ranks=1, layers=8, step_compute_us=20_000, loader_workers=True, faults=faults)
