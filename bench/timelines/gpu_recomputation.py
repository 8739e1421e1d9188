"""Every layer is recomputed in the backward pass although memory is free; the twin keeps activations."""

from bench.label import Label
from tests.support.traces.synthetic import Faults, JobSpec

LABEL = Label(cause="memory/needless_checkpointing", says=("checkpoint", "recompute", "recomputation"), style="gpu")


def specs(flawed: bool) -> JobSpec:
    faults = Faults(recompute=True) if flawed else Faults()
    return JobSpec(ranks=1, layers=8, step_compute_us=20_000, loader_workers=True, faults=faults)
