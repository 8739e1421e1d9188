"""Experts of eight ranks wait for each exchange of tokens; in the twin other tokens are computed meanwhile."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec

LABEL = Label(
    cause="communication/exposed_all_to_all",
    says=("all-to-all", "all_to_all", "expert", "exposed", "overlap"),
    ranks=8,
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    return JobSpec(
        ranks=8,
        steps=4,
        layers=8,
        step_compute_us=24_000,
        experts="exposed" if flawed else "hidden",
        activation_bytes=96 << 20,
        collective_bytes=16 << 20,
        seed=307,
    )
