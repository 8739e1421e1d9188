"""Pipeline stages on four nodes send activations at 2 GB/s, longer than a micro-batch computes; the twin has 40 GB/s."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec, ParallelSizes

LABEL = Label(
    cause="communication/slow_point_to_point",
    says=("send", "receive", "recv", "point-to-point", "pipeline", "bandwidth", "network"),
    ranks=4,
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    return JobSpec(
        ranks=4,
        steps=4,
        layers=8,
        layout=ParallelSizes(pp=4),
        microbatches=8,
        gpus_per_node=1,
        step_compute_us=20_000,
        activation_bytes=8 << 20,
        network_gb_per_s=2 if flawed else 40,
        seed=122,
    )
