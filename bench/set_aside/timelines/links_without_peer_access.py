"""Four tensor-parallel devices exchange at 12 GB/s, as with peer access off; the twin has 300 GB/s."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec, ParallelSizes

LABEL = Label(
    cause="communication/slow_links",
    says=("tensor parallel", "tensor-parallel", "bandwidth", "link", "NVLink", "P2P", "peer", "GB/s"),
    ranks=4,
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    return JobSpec(
        ranks=4,
        steps=5,
        layers=8,
        layout=ParallelSizes(tp=4),
        step_compute_us=20_000,
        activation_bytes=8 << 20,
        link_gb_per_s=12 if flawed else 300,
        seed=119,
    )
