"""What every plan quotes of its errors: the section `training` of `accuracy.json`, from the tables of accuracy."""

from typing import Any

import numpy as np

from bench.plan.folds import chips, shapes
from bench.plan.intervals import intervals
from bench.plan.left_out import residuals
from bench.plan.left_out_accuracy import of_all, of_stack
from bench.plan.memory import as_measured, measured_peaks, predicted_use
from bench.plan.memory_accuracy import memory_accuracy
from bench.plan.training import Runs, expressed_runs
from bench.plan.user_intervals import KINDS, UserInterval, user_interval, user_runs
from bench.plan.validation import LeftOutAccuracy
from redline.model.model import Column
from redline.plan.train.search.plan_trust import EVERY, Situation
from redline.plan.train.stacks import format_kind

DIGITS = 3
Entry = dict[str, float]
PLANNED = tuple(situation for situation in Situation if situation is not Situation.SOURCE)


def trust() -> dict[str, Any]:
    """All of it: what was measured, intervals by situation and of users, and errors of step time and memory."""
    known, cells = measured(expressed_runs()), {situation.value: _intervals(situation) for situation in PLANNED}
    users = user_runs(known, cells)
    return {
        "measured": known,
        "intervals": cells,
        "users": {kind: _of_users(user_interval(users, kind)) for kind in KINDS},
        "errors": {situation.value: dict(_errors(situation)) for situation in PLANNED},
        "memory": memory_errors(),
    }


def measured(runs: Runs) -> dict[str, dict[str, dict[str, list[Any]]]]:
    """By stack and type of GPU: formats, models and numbers of GPUs of its runs."""
    kinds = np.array([format_kind(dtype) for dtype in runs.formats.tolist()])
    columns = {"formats": kinds, "models": shapes(runs), "devices": runs.devices.astype(np.int64)}
    found: dict[str, dict[str, dict[str, list[Any]]]] = {}
    for stack, chip in sorted(set(zip(runs.stacks.tolist(), chips(runs).tolist(), strict=True))):
        own = (runs.stacks == stack) & (chips(runs) == chip)
        found.setdefault(stack, {})[chip] = {name: np.unique(all_[own]).tolist() for name, all_ in columns.items()}
    return found


def _intervals(situation: Situation) -> dict[str, Entry]:
    return {
        f"{each.cell.stack}/{each.cell.chip}/{'unusual' if each.cell.unusual else 'usual'}": {
            "low": round(each.low, DIGITS), "high": round(each.high, DIGITS), "runs": each.runs, "groups": each.groups,
        }
        for each in intervals(situation)
    }  # fmt: skip


def _of_users(found: UserInterval) -> Entry:
    return {
        "low": round(found.low, DIGITS), "high": round(found.high, DIGITS), "runs": found.runs, "groups": found.sources,
    }  # fmt: skip


def _errors(situation: Situation) -> Any:
    yield EVERY, _accuracy(of_all(situation))
    for stack in np.unique(residuals(situation).runs.stacks).tolist():
        found = of_stack(situation, stack)
        assert found is not None
        yield stack, _accuracy(found)


def _accuracy(found: LeftOutAccuracy) -> Entry:
    return {**_entry(found.runs, found.median, found.ninetieth), "groups": found.groups}


def memory_errors() -> dict[str, Entry]:
    """A stack that nobody measured has what is predicted with no constant that was fitted."""
    peaks = {each.stack: _entry(each.rows, each.median, each.p90) for each in memory_accuracy().peaks}
    return {**peaks, EVERY: _peaks_unfitted()}


def _peaks_unfitted() -> Entry:
    every = measured_peaks()
    rows = every.where(every.held_out)
    return _scored(as_measured(predicted_use(rows, fitted=False), rows.kinds) / rows.measured_bytes - 1)


def _scored(errors: Column) -> Entry:
    absolute = np.abs(errors)
    return _entry(len(absolute), float(np.median(absolute)), float(np.quantile(absolute, 0.9)))


def _entry(rows: int, median: float, p90: float) -> Entry:
    return {"rows": rows, "median": round(median, DIGITS), "p90": round(p90, DIGITS)}
