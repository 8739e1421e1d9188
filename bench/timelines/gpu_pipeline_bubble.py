"""A pipeline of four stages with six micro-batches; the twin has 144."""

from bench.label import Label
from tests.support.traces.synthetic import JobSpec, ParallelSizes

LABEL = Label(cause="communication/pipeline_bubble", says=("pipeline", "micro-batch", "bubble"), ranks=4, style="gpu")


def specs(flawed: bool) -> JobSpec:
    return JobSpec(
        ranks=4,
        layers=4,
        step_compute_us=240_000,
        loader_workers=True,
        collective_latency_us=5,
        layout=ParallelSizes(pp=4),
        microbatches=6 if flawed else 144,
    )
