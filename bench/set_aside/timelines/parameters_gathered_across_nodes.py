"""Sharded parameters are gathered over the network, slower than layers compute; in the twin the 16 devices share fast links."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec

LABEL = Label(
    cause="communication/exposed_gathers",
    says=("all-gather", "all_gather", "gather", "prefetch", "HSDP", "reshard", "exposed"),
    ranks=16,
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    return JobSpec(
        ranks=16,
        steps=4,
        layers=16,
        step_compute_us=20_000,
        collectives="all_gather_reduce_scatter",
        collective_bytes=36 << 20,
        gpus_per_node=8 if flawed else 16,
        seed=116,
    )
