"""The layouts of a job that are worth running: ranked, and the frontier between speed and memory."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from redline.planner.train.column_rows import rows_of
from redline.planner.train.layout import Layout
from redline.planner.train.search.evaluate import Evaluated, TrainingJob, evaluate
from redline.planner.train.search.ranking import SURE, by_memory, by_speed
from redline.planner.train.search.space import Space
from redline.planner.train.training_choices import ACCEPTED_CHANCE, BY

HARDLY = 0.05
"""Slower by less than this is worth a safer layout."""


@dataclass(frozen=True, kw_only=True)
class FoundLayouts:
    """All layouts that can run, the best first; those that probably run out of memory are at the end."""

    every: Evaluated
    fitting: int
    """How many of them fit, from the first on."""


def search(
    job: TrainingJob, space: Space, *, by: str = BY[0], accepted_chance: float = ACCEPTED_CHANCE
) -> FoundLayouts:
    """Evaluate every layout of the space, and order them by speed or by memory."""
    every = evaluate(job, _running(job, job.workload.layouts(job.batch, space)))
    fits = every.chance <= accepted_chance
    if by == "speed":
        order = by_speed(every.layout, every.step_s, every.chance, fits)
    else:
        order = by_memory(every.layout, every.step_s, every.peak_bytes, fits)
    return FoundLayouts(every=every.rows(order), fitting=int(np.count_nonzero(fits)))


def safer(layouts: FoundLayouts) -> int | None:
    """The row that is the least likely to run out of memory, of those that are hardly slower than the first."""
    every = layouts.every.rows(np.arange(layouts.fitting))
    if not layouts.fitting or every.chance[0] <= SURE:
        return None
    near = np.flatnonzero(every.step_s <= every.step_s[0] * (1 + HARDLY))
    row = int(near[np.argmax(every.chance[near] <= SURE)])
    return row if every.chance[row] <= SURE else None


def _running(job: TrainingJob, possible: Layout) -> Layout:
    """Those that the stack does not refuse."""
    runs = job.workload.runnable(job.batch, possible, job.foot)
    return rows_of(possible, runs)


def frontier(layouts: FoundLayouts) -> NDArray[np.intp]:
    """Rows of the layouts that fit and than which none is both faster and smaller, the fastest first."""
    steps, peaks = (
        layouts.every.step_s[: layouts.fitting],
        layouts.every.peak_bytes[: layouts.fitting],
    )
    order = np.lexsort((peaks, steps))
    smallest_before = np.minimum.accumulate(np.concatenate(([np.inf], peaks[order][:-1])))
    return order[peaks[order] < smallest_before]
