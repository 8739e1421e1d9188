"""torch.cuda.synchronize() around every timed part of the forward pass; the twin does without."""

from bench.label import Label
from tests.support.traces.synthetic import Faults, JobSpec

LABEL = Label(cause="host/device_synchronised", says=("synchronis", "synchroniz"), style="gpu")


def specs(flawed: bool) -> JobSpec:
    faults = Faults(device_syncs=192) if flawed else Faults()
    return JobSpec(ranks=1, layers=32, step_compute_us=16_000, launch_us=14, loader_workers=True, faults=faults)
