"""A batch of 32 MB is copied from pageable memory in every step; the twin's memory is pinned."""

from bench.label import Label
from tests.support.traces.synthetic import Faults, JobSpec

LABEL = Label(cause="input/pageable_copies", says=("pin_memory", "pinned"), style="gpu")


def specs(flawed: bool) -> JobSpec:
    faults = Faults(pageable_batch=True) if flawed else Faults()
    return JobSpec(
        ranks=1, layers=8, step_compute_us=20_000, loader_workers=True, batch_bytes=32_000_000, faults=faults
    )
