"""Gradients are reduced in one small bucket for each layer of a deep model; the twin has six buckets."""

from bench.label import Label
from tests.support.traces.synthetic import JobSpec

LABEL = Label(cause="communication/tiny_buckets", says=("bucket", "small all-reduce"), ranks=4, style="gpu")


def specs(flawed: bool) -> JobSpec:
    return JobSpec(
        ranks=4,
        layers=96,
        step_compute_us=20_000,
        gpus_per_node=2,
        loader_workers=True,
        buckets=96 if flawed else 6,
        collective_bytes=(1 << 20) if flawed else (16 << 20),
        collective_latency_us=200,
    )
