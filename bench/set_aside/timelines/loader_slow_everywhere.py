"""The data loader holds up each step by 9 ms on every rank; in the twin batches are ready."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec

LABEL = Label(
    cause="input/loader_too_slow",
    says=("loader", "data loading", "worker", "input"),
    ranks=8,
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    return JobSpec(ranks=8, steps=6, layers=8, step_compute_us=18_000, input_us=9_000 if flawed else 80, seed=104)
