"""The errors that every plan quotes, per software stack, from the tables of accuracy.

A plan whose stack has no measured runs quotes those of all stacks. What it does not know about its software, it must
not know about theirs: steps of all of them are predicted as those of usual software, and memory with no constant that
was fitted.
"""

from dataclasses import replace

import numpy as np

from redline.model.model import Column
from redline.planner.train.search.plan_trust import EVERY
from redline.planner.train.stacks import DEFAULT_STACK
from redline.planner.validation.memory import as_measured, measured_peaks, predicted_use
from redline.planner.validation.memory_accuracy import memory_accuracy
from redline.planner.validation.step_accuracy import LEAST_UTILIZATION, SWEEP, predicted, step_accuracy
from redline.planner.validation.training import Runs, expressed_runs

DIGITS = 3
Entry = dict[str, float]


def held_out() -> dict[str, dict[str, Entry]]:
    """Of step time and of memory: rows, median and 90th percentile of absolute errors."""
    steps = {
        accuracy.name: _entry(accuracy.runs, accuracy.median, accuracy.ninetieth) for accuracy in step_accuracy().stacks
    }
    peaks = {
        accuracy.stack: _entry(accuracy.rows, accuracy.median, accuracy.p90) for accuracy in memory_accuracy().peaks
    }
    return {"step": {**steps, EVERY: _steps_as_usual()}, "memory": {**peaks, EVERY: _peaks_unfitted()}}


def usual_spread() -> Entry:
    """Eight of ten measured steps of all software lie between these multiples of what is predicted for usual software.

    From runs with even ids, so that those with odd ids can say whether it is true.
    """
    runs = _usable_runs(held_out=False)
    low, high = np.quantile(runs.measured_s / predicted(runs).step_s, (0.1, 0.9))
    return {"low": round(float(low), DIGITS), "high": round(float(high), DIGITS), "runs": len(runs)}


def measured_machines() -> list[str]:
    """Those that measured runs ran on: records of the catalogue."""
    return sorted(set(expressed_runs().machines.tolist()))


def _steps_as_usual() -> Entry:
    runs = _usable_runs(held_out=True)
    return _scored(predicted(runs).step_s / runs.measured_s - 1)


def _usable_runs(*, held_out: bool) -> Runs:
    """Taken for runs of usual software."""
    every = expressed_runs()
    usable = (every.stacks != SWEEP) | (every.utilization >= LEAST_UTILIZATION)
    runs = every.where((every.held_out == held_out) & usable)
    return replace(runs, stacks=np.full(len(runs), DEFAULT_STACK))


def _peaks_unfitted() -> Entry:
    every = measured_peaks()
    rows = every.where(every.held_out)
    return _scored(as_measured(predicted_use(rows, fitted=False), rows.kinds) / rows.measured_bytes - 1)


def _scored(errors: Column) -> Entry:
    absolute = np.abs(errors)
    return _entry(len(absolute), float(np.median(absolute)), float(np.quantile(absolute, 0.9)))


def _entry(rows: int, median: float, p90: float) -> Entry:
    return {"rows": rows, "median": round(median, DIGITS), "p90": round(p90, DIGITS)}
