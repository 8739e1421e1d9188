"""FSDP gathers parameters when their layer is reached; the twin gathers one layer ahead."""

from bench.label import Label
from tests.support.traces.synthetic import Faults, JobSpec

LABEL = Label(cause="communication/gathers_not_prefetched", says=("prefetch", "gather"), ranks=4, style="gpu")


def specs(flawed: bool) -> JobSpec:
    faults = Faults(no_prefetch=True) if flawed else Faults()
    return JobSpec(
        ranks=4,
        layers=8,
        step_compute_us=20_000,
        loader_workers=True,
        collectives="all_gather_reduce_scatter",
        collective_bytes=1 << 27,
        faults=faults,
    )
