"""A serving engine launches the kernels of decode steps one by one; the twin replays a CUDA graph."""

from bench.label import Label
from tests.support.traces.synthetic import JobSpec

LABEL = Label(cause="serving/launch_bound_decode", says=("CUDA graph", "graph"), kind="generation", style="gpu")


def specs(flawed: bool) -> JobSpec:
    return JobSpec(
        ranks=1, steps=8, layers=24, step_compute_us=2_000, launch_us=14, engine=True, replay_graph=not flawed
    )
