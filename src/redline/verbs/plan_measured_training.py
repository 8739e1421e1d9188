"""`redline plan train --measured`: a step of the job that ran, from a recording of it or from numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from redline.planner.train.measured.measured_step import MeasuredTraining
from redline.planner.train.workload import Workload
from redline.storage import path_of
from redline.verbs.measured_numbers import from_numbers, is_numbers, parse_measured
from redline.verbs.measured_recording import from_recording


def measured_training(
    given: str | Path, workload: Workload, sequence: int, *, layout: str | None, machine: str
) -> MeasuredTraining:
    """`given` is a recording, or numbers such as step=1.52s,dp=8,batch=64; `layout` the like beside a recording."""
    more: Mapping[str, float] = {} if layout is None else parse_measured(layout)
    if isinstance(given, str) and is_numbers(given):
        return from_numbers({**parse_measured(given), **more}, sequence)
    return from_recording(path_of(given), workload, sequence, more, machine)
