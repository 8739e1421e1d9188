"""Three values of every layer are read with .item() in the forward pass; the twin reads one at the end of the step."""

from bench.label import Label
from tests.support.traces.synthetic import Faults, JobSpec

LABEL = Label(cause="host/values_read_every_step", says=(".item", "read"), style="gpu")


def specs(flawed: bool) -> JobSpec:
    faults = Faults(item_reads=96) if flawed else Faults()
    return JobSpec(ranks=1, layers=32, step_compute_us=16_000, launch_us=12, loader_workers=True, faults=faults)
