"""Small tensors are made on the host in every layer and copied over; the twin makes them on the device."""

from bench.label import Label
from tests.support.traces.synthetic import Faults, JobSpec

LABEL = Label(cause="host/small_tensors_from_host", says=("small tensors", "device="), style="gpu")


def specs(flawed: bool) -> JobSpec:
    faults = Faults(small_copies=64) if flawed else Faults()
    return JobSpec(ranks=1, layers=16, step_compute_us=8_000, loader_workers=True, faults=faults)
