"""Hundreds of kernels of a few microseconds, launched one by one; the twin replays them as a CUDA graph."""

from bench.label import Label
from tests.support.traces.synthetic import JobSpec

LABEL = Label(cause="host/launch_bound", says=("CUDA graph", "launch"), style="gpu")


def specs(flawed: bool) -> JobSpec:
    return JobSpec(ranks=1, layers=24, step_compute_us=3_000, launch_us=8, loader_workers=True, replay_graph=not flawed)
