"""Nodes exchange gradients at 5 GB/s, as over sockets instead of InfiniBand; the twin has 40 GB/s."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec

LABEL = Label(
    cause="communication/slow_network",
    says=("network", "bandwidth", "transport", "NCCL", "InfiniBand", "GB/s"),
    ranks=16,
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    return JobSpec(
        ranks=16,
        steps=5,
        layers=16,
        step_compute_us=25_000,
        buckets=8,
        collective_bytes=16 << 20,
        network_gb_per_s=5 if flawed else 40,
        seed=115,
    )
