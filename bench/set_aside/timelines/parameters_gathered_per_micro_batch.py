"""Sharded parameters are gathered and gradients scattered in each of eight micro-batches; the twin runs one large batch."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec

LABEL = Label(
    cause="communication/regathered_parameters",
    says=("micro-batch", "microbatch", "accumulat", "gather", "reduce-scatter", "reshard"),
    ranks=8,
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    return JobSpec(
        ranks=8,
        steps=4,
        layers=8,
        step_compute_us=20_000,
        collectives="all_gather_reduce_scatter",
        collective_bytes=96 << 20,
        microbatches=8 if flawed else 1,
        seed=117,
    )
