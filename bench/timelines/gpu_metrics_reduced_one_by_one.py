"""A hundred and twenty numbers are reduced and read one by one in every step; the twin reduces none."""

from bench.label import Label
from tests.support.traces.synthetic import Faults, JobSpec

LABEL = Label(
    cause="communication/metrics_reduced_every_step",
    says=("small all-reduce", "all-reduces", "metric"),
    ranks=4,
    style="gpu",
)


def specs(flawed: bool) -> JobSpec:
    faults = Faults(small_all_reduces=120) if flawed else Faults()
    return JobSpec(ranks=4, layers=8, step_compute_us=20_000, loader_workers=True, faults=faults)
