"""Activations are cloned ten times in every layer; the twin passes them on."""

from bench.label import Label
from tests.support.traces.synthetic import Faults, JobSpec

LABEL = Label(cause="kernels/needless_copies", says=("copy", "copies", "clone"), style="gpu")


def specs(flawed: bool) -> JobSpec:
    faults = Faults(clones=10) if flawed else Faults()
    return JobSpec(ranks=1, layers=8, step_compute_us=20_000, loader_workers=True, faults=faults)
