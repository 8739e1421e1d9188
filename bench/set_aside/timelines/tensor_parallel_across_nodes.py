"""A tensor-parallel group of 16 spans two nodes; the twin keeps groups of eight inside a node and two data-parallel copies."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec, ParallelSizes

LABEL = Label(
    cause="communication/tensor_parallel_spans_nodes",
    says=("tensor parallel", "tensor-parallel", "node", "NVLink", "network"),
    ranks=16,
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    layout = ParallelSizes(tp=16) if flawed else ParallelSizes(tp=8, dp=2)
    return JobSpec(
        ranks=16, steps=4, layers=8, layout=layout, step_compute_us=25_000, activation_bytes=12 << 20, seed=118
    )
