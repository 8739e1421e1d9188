"""Each layer asks the device whether its output is finite and the host waits; the twin does not ask. Four ranks."""

from bench.label import Label
from tests.support.traces.faults import Faults
from tests.support.traces.jobspec import JobSpec

LABEL = Label(cause="host/sync_each_step", says=("item", "sync", "wait", "copy"), ranks=4, style="gpu")


def specs(flawed: bool) -> JobSpec:
    """The job with or without the flaw."""
    faults = Faults(item_reads=144 if flawed else 0)
    return JobSpec(ranks=4, steps=4, layers=24, step_compute_us=12_000, launch_us=8, faults=faults, seed=302)
