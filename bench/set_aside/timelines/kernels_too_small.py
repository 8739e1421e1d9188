"""The same work is spread over eight times as many kernels of under 2 us each; the twin runs it as few larger ones."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec

LABEL = Label(
    cause="kernels/tiny_kernels",
    says=("small kernel", "tiny", "short kernel", "fus", "CUDA graph", "launch"),
    ranks=1,
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    return JobSpec(ranks=1, steps=6, layers=96 if flawed else 12, step_compute_us=4_000, seed=102)
