"""Tokens go to experts and back while nothing computes; the twin hides each exchange behind the next layer."""

from bench.label import Label
from tests.support.traces.synthetic import JobSpec

LABEL = Label(cause="communication/exposed_all_to_all", says=("expert", "all-to-all"), ranks=4, style="gpu")


def specs(flawed: bool) -> JobSpec:
    return JobSpec(
        ranks=4,
        layers=8,
        step_compute_us=20_000,
        loader_workers=True,
        activation_bytes=64 << 20,
        experts="exposed" if flawed else "hidden",
    )
