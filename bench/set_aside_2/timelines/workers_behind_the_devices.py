"""Loader workers need longer for a batch than sixteen devices for a step; in the twin the batch is there in time."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec

LABEL = Label(cause="input/loader_too_slow", says=("loader", "input", "worker", "batch"), ranks=16, style="gpu")


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    return JobSpec(
        ranks=16,
        steps=4,
        layers=6,
        step_compute_us=18_000,
        collective_bytes=6 << 20,
        loader_workers=True,
        input_us=11_000 if flawed else 120,
        seed=303,
    )
