"""The 200 buffers of batch norms are broadcast before every forward pass; the twin broadcasts none."""

from bench.label import Label
from tests.support.traces.synthetic import Faults, JobSpec

LABEL = Label(cause="communication/buffer_broadcasts", says=("broadcast_buffers", "buffers"), ranks=4, style="gpu")


def specs(flawed: bool) -> JobSpec:
    faults = Faults(buffers=200) if flawed else Faults()
    return JobSpec(ranks=4, layers=8, step_compute_us=4_000, loader_workers=True, faults=faults)
