"""Gradients are sent in fp32 over a slow network; the twin sends bf16."""

from bench.label import Label
from tests.support.traces.synthetic import Faults, JobSpec

LABEL = Label(cause="communication/fp32_gradients", says=("bf16", "compress"), ranks=4, style="gpu")


def specs(flawed: bool) -> JobSpec:
    faults = Faults(fp32_gradients=True) if flawed else Faults()
    return JobSpec(
        ranks=4,
        layers=16,
        step_compute_us=20_000,
        loader_workers=True,
        gpus_per_node=2,
        buckets=16,
        collective_bytes=15 << 20,
        faults=faults,
    )
