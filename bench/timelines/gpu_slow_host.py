"""A slow host launches kernels of ten microseconds; the twin's host is fast enough to stay ahead."""

from bench.label import Label
from tests.support.traces.synthetic import JobSpec

LABEL = Label(cause="host/launch_bound", says=("CUDA graph", "launch"), style="gpu")


def specs(flawed: bool) -> JobSpec:
    return JobSpec(ranks=1, layers=24, step_compute_us=7_000, launch_us=20 if flawed else 5, loader_workers=True)
