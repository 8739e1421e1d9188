"""Convolutions convert from NCHW to NHWC and back; the twin's tensors are channels-last."""

from bench.label import Label
from tests.support.traces.synthetic import Faults, JobSpec

LABEL = Label(cause="kernels/layout_conversions", says=("channels_last", "channels-last", "layout"), style="gpu")


def specs(flawed: bool) -> JobSpec:
    faults = Faults(layout_conversions=True) if flawed else Faults()
    return JobSpec(ranks=1, layers=8, step_compute_us=20_000, loader_workers=True, convolutions=True, faults=faults)
