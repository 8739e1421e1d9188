"""The link between the GPUs of a node reaches a tenth of its bandwidth; the twin's is sound."""

from bench.label import Label
from tests.support.traces.synthetic import JobSpec

LABEL = Label(cause="communication/slow_link", says=("link", "bandwidth"), ranks=8, style="gpu")


def specs(flawed: bool) -> JobSpec:
    return JobSpec(
        ranks=8,
        layers=8,
        step_compute_us=20_000,
        loader_workers=True,
        buckets=8,
        collective_bytes=128 << 20,
        link_gb_per_s=30 if flawed else 330,
    )
