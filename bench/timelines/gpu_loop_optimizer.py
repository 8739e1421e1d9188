"""AdamW with foreach=False updates one parameter after the other; the twin is fused."""

from bench.label import Label
from tests.support.traces.synthetic import Faults, JobSpec

LABEL = Label(cause="host/optimizer_loops_over_parameters", says=("fused", "foreach"), style="gpu")


def specs(flawed: bool) -> JobSpec:
    faults = Faults(loop_optimizer=True) if flawed else Faults()
    return JobSpec(ranks=1, layers=8, step_compute_us=10_000, loader_workers=True, faults=faults)
