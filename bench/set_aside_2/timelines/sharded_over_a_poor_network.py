"""Sixteen ranks of two nodes gather parameters through a network a tenth as fast as that of the twin."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec

LABEL = Label(
    cause="communication/slow_network", says=("network", "bandwidth", "slow", "GB/s", "link"), ranks=16, style="gpu"
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    return JobSpec(
        ranks=16,
        steps=4,
        layers=8,
        step_compute_us=40_000,
        collectives="all_gather_reduce_scatter",
        collective_bytes=48 << 20,
        network_gb_per_s=8 if flawed else 80,
        seed=310,
    )
