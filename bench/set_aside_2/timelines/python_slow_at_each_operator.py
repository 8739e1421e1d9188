"""Hooks make each operator cost the host five times as much and two devices wait; the twin has no hooks."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec

LABEL = Label(
    cause="host/launch_bound", says=("launch", "host", "CUDA graph", "compile", "Python"), ranks=2, style="gpu"
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    return JobSpec(ranks=2, steps=5, layers=14, step_compute_us=8_000, launch_us=35 if flawed else 7, seed=301)
