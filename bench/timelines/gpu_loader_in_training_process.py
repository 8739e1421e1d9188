"""Batches are loaded in the process that trains, 8 ms each; the twin's workers have them ready."""

from bench.label import Label
from tests.support.traces.synthetic import JobSpec

LABEL = Label(cause="input/loaded_in_training_process", says=("num_workers", "worker"), style="gpu")


def specs(flawed: bool) -> JobSpec:
    return JobSpec(
        ranks=1, layers=8, step_compute_us=20_000, loader_workers=not flawed, input_us=8_000 if flawed else 80
    )
