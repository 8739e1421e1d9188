"""All eight hosts' processes of the second node are slow between loader and forward pass; the twin has two equal nodes."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec, Straggler

LABEL = Label(
    cause="machine/slow_node",
    says=("node", "host", "CPU", "straggler"),
    ranks=16,
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    slow = tuple(Straggler(rank=rank, extra_us=4_500 + 100 * (rank % 3), where="host") for rank in range(8, 16))
    return JobSpec(ranks=16, steps=5, layers=8, step_compute_us=14_000, stragglers=slow if flawed else (), seed=112)
