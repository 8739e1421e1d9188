"""The host needs 28 us per operator and the device drains its queue; the twin launches in 4 us, as compiled code or a graph does."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec

LABEL = Label(
    cause="host/launch_bound",
    says=("launch", "CUDA graph", "torch.compile", "host-bound", "host bound"),
    ranks=1,
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    return JobSpec(ranks=1, steps=6, layers=24, step_compute_us=9_000, launch_us=28 if flawed else 4, seed=101)
