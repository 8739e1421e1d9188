"""The last of four pipeline stages computes 90 ms longer in each step; the twin's stages are equal."""

from bench.label import Label
from tests.support.traces.synthetic import JobSpec, ParallelSizes, Straggler

LABEL = Label(cause="communication/unequal_pipeline_stages", says=("stage", "pipeline"), ranks=4, style="gpu")


def specs(flawed: bool) -> JobSpec:
    stragglers = (Straggler(rank=3, extra_us=90_000),) if flawed else ()
    return JobSpec(
        ranks=4,
        layers=4,
        step_compute_us=240_000,
        loader_workers=True,
        collective_latency_us=5,
        layout=ParallelSizes(pp=4),
        microbatches=144,
        stragglers=stragglers,
    )
