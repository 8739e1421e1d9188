"""Time and memory of many layouts of one job at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TypeVar

import numpy as np

from redline.model.model import Column
from redline.planner.train.column_rows import Rows, row_of, rows_of
from redline.planner.train.layout import Batch, Layout
from redline.planner.train.memory.footprint import Footprint, changed, footprint
from redline.planner.train.memory.oom_probability import oom_probability
from redline.planner.train.step_cost import MemoryUse, StepTime
from redline.planner.train.time.step import step_time
from redline.planner.train.training_rates import Rates
from redline.planner.train.workload import Workload

Value = TypeVar("Value")

# Small enough for the columns of one evaluation to stay in the caches.
ROWS_AT_ONCE = 8192


@dataclass(frozen=True, kw_only=True)
class TrainingJob:
    """What is to be laid out, and on what."""

    workload: Workload
    batch: Batch
    rates: Rates
    stack: str
    dtype: str = "bf16"
    footprint: Mapping[str, float] = field(default_factory=dict)
    """Of fields of Footprint: numbers in the place of the stack's own."""

    @property
    def foot(self) -> Footprint:
        return changed(footprint(self.stack, self.dtype), self.footprint)


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """Layouts with what they cost: columns, or plain numbers for one layout."""

    layout: Layout
    time: StepTime
    memory: MemoryUse
    chance: Column
    """Of running out of memory."""
    step_s: Column
    peak_bytes: Column

    def __len__(self) -> int:
        return len(self.chance)

    def rows(self, rows: Rows) -> Evaluated:
        picked = rows_of(self, rows)
        nested = {name: rows_of(getattr(self, name), rows) for name in ("layout", "time", "memory")}
        return replace(picked, **nested)

    def row(self, row: int) -> Evaluated:
        picked = row_of(self, row)
        nested = {name: row_of(getattr(self, name), row) for name in ("layout", "time", "memory")}
        return replace(picked, **nested)


def evaluate(job: TrainingJob, layouts: Layout) -> Evaluated:
    """All of them, some thousands at a time."""
    count = len(np.atleast_1d(layouts.dp))
    starts = range(0, max(count, 1), ROWS_AT_ONCE)
    parts = [_evaluate(job, rows_of(layouts, np.arange(at, min(at + ROWS_AT_ONCE, count)))) for at in starts]
    return parts[0] if len(parts) == 1 else _joined_evaluations(parts)


def _evaluate(job: TrainingJob, layout: Layout) -> Evaluated:
    time = step_time(job.workload.step_costs(job.batch, layout, job.rates))
    memory = job.workload.memory(job.batch, layout, job.foot)
    peak_bytes = memory.peak_bytes
    chance = oom_probability(peak_bytes, job.rates.device_bytes, job.stack)
    return Evaluated(layout=layout, time=time, memory=memory, chance=chance, step_s=time.step_s, peak_bytes=peak_bytes)


def _joined_evaluations(parts: Sequence[Evaluated]) -> Evaluated:
    nested = {name: _joined([getattr(part, name) for part in parts]) for name in ("layout", "time", "memory")}
    return replace(_joined(parts), **nested)


def _joined(values: Sequence[Value]) -> Value:
    """One value with the columns of all, one after the other."""
    columns = {column.name: [getattr(value, column.name) for value in values] for column in fields(values[0])}  # type: ignore[arg-type]
    joined = {name: np.concatenate(all_of) for name, all_of in columns.items() if isinstance(all_of[0], np.ndarray)}
    return replace(values[0], **joined)  # type: ignore[type-var]
