"""loss.item() ends each step and the host cannot work ahead, so the loader's 4 ms are seen; the twin reads no value."""

from bench.label import Label
from tests.support.traces.jobspec import JobSpec

LABEL = Label(
    cause="host/sync_each_step",
    says=("item", "sync", "waits for the device", "host read"),
    ranks=1,
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    return JobSpec(ranks=1, steps=8, layers=8, step_compute_us=12_000, input_us=4_000, sync_each_step=flawed, seed=103)
