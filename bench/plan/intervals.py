"""Intervals of step time by situation: between which multiples of a prediction eight of ten measured times lie.

They come from errors on runs whose group was left out of the fit, by the software, the type of GPU and the kind of
model. Groups, not runs, say how much is known: runs of a model are off together. Where a software has few groups, it
borrows from all of its runs, and then from those of other software. Last, each situation is widened or narrowed until
the interval of a group, made without it, holds eight of ten of its runs: of all runs, and of stacks that count by the
root of their runs, in the mean.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from bench.plan.folds import Texts
from bench.plan.left_out import Residuals, residuals
from bench.plan.rows import Mask, Numbers
from redline.plan.train.search.plan_trust import EVERY, Situation

SHARE = 0.8
# As many groups of its own as tell a situation as well as what it borrows.
BORROWED_GROUPS = 3.0
WIDTHS = (0.3, 5.0)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Runs that are alike: of one software on one type of GPU, say; "all" stands for any."""

    stack: str
    chip: str
    unusual: bool
    """Mixtures of experts and adapters, which scatter more."""


@dataclass(frozen=True, kw_only=True)
class CellInterval:
    """Of measured over predicted."""

    cell: Cell
    low: float
    high: float
    runs: int
    groups: int
    """Of the cell itself."""


def intervals(axis: Situation) -> Iterator[CellInterval]:
    """Of every cell that has runs, and of those that stand in for cells without any."""
    told, width = residuals(axis), widening(axis)
    for cell in sorted(_cells(told, axis), key=lambda cell: (cell.stack, cell.chip, cell.unusual)):
        low, high = _ends(told, np.ones(len(told), np.bool_), cell, axis, width)
        own = told.where(_in(told, cell))
        yield CellInterval(
            cell=cell,
            low=float(np.exp(low)),
            high=float(np.exp(high)),
            runs=len(own),
            groups=len(np.unique(own.groups)),
        )


def covered(axis: Situation, width: float | None = None) -> Mask:
    """Per run of an axis: whether its time lies in the interval that is made without its group."""
    told = residuals(axis)
    factor = widening(axis) if width is None else width
    inside = np.zeros(len(told), np.bool_)
    for rows, low, middle, high in _unwidened(axis):
        logs = told.logs[rows]
        inside[rows] = (middle + factor * (low - middle) <= logs) & (logs <= middle + factor * (high - middle))
    return inside


@cache
def widening(axis: Situation) -> float:
    """The factor of an axis at which the intervals hold their share."""
    weights = by_root(residuals(axis).runs.stacks)
    low, high = WIDTHS
    for _ in range(30):
        middle = (low + high) / 2
        inside = covered(axis, middle)
        held = float(inside.mean() + np.average(inside, weights=weights)) / 2
        low, high = (middle, high) if held < SHARE else (low, middle)
    return high


def by_root(names: Texts) -> Numbers:
    """Weights of rows by whose they are: neither may one with many decide for all, nor one with a handful."""
    _, at, counts = np.unique(names, return_inverse=True, return_counts=True)
    return np.asarray(1 / np.sqrt(counts[at]), np.float64)


@cache
def _unwidened(axis: Situation) -> tuple[tuple[Mask, float, float, float], ...]:
    """Of every group and cell of it: its runs, and the quantiles of others."""
    told = residuals(axis)
    found: list[tuple[Mask, float, float, float]] = []
    for group in np.unique(told.groups):
        own = told.groups == group
        cells = _cells(told.where(own), axis, finest=True)
        found.extend((own & _in(told, cell), *_quantiles(told, ~own, cell, axis)) for cell in cells)
    return tuple(found)


def _ends(told: Residuals, allowed: Mask, cell: Cell, axis: Situation, width: float) -> tuple[float, float]:
    low, middle, high = _quantiles(told, allowed, cell, axis)
    return middle + width * (low - middle), middle + width * (high - middle)


def _quantiles(told: Residuals, allowed: Mask, cell: Cell, axis: Situation) -> tuple[float, float, float]:
    """The tenth, the middle and the ninetieth percentile of the allowed runs; those most alike count most."""
    weights, left = np.zeros(len(told)), 1.0
    chain = list(_ever_wider(cell, axis))
    for each in chain:
        own = allowed & _in(told, each)
        groups = len(np.unique(told.groups[own]))
        if not groups:
            continue
        last = each is chain[-1]
        share = left if last else left * groups / (groups + BORROWED_GROUPS)
        weights[own] += share * _evenly(told, own, axis)[own]
        left -= share
    if not weights.any():  # no run of this kind of model: any other
        weights[allowed] = _evenly(told, allowed, axis)[allowed]
    tail = (1 - SHARE) / 2
    low, middle, high = weighted_quantiles(told.logs, weights, (tail, 0.5, 1 - tail))
    return low, middle, high


def _evenly(told: Residuals, own: Mask, axis: Situation) -> Numbers:
    """Weights that add up to 1: where stacks are the groups each counts alike, else every run does."""
    if axis is not Situation.STACK:
        return np.asarray(own / own.sum(), np.float64)
    weights = np.zeros(len(told))
    names, counts = np.unique(told.groups[own], return_counts=True)
    for name, count in zip(names, counts, strict=True):
        weights[own & (told.groups == name)] = 1 / (count * len(names))
    return weights


def weighted_quantiles(values: Numbers, weights: Numbers, levels: tuple[float, ...]) -> list[float]:
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / weights.sum()
    return [float(values[order][min(int(np.searchsorted(reached, level)), len(order) - 1)]) for level in levels]


# --- cells ------------------------------------------------------------------------------------------------------------


def _ever_wider(cell: Cell, axis: Situation) -> Iterator[Cell]:
    """The cell, and what it borrows from."""
    yield cell
    for stack, chip in ((cell.stack, EVERY), (EVERY, EVERY)):
        wider = Cell(stack=stack, chip=chip, unusual=cell.unusual)
        if wider != cell:
            yield wider


def _cells(told: Residuals, axis: Situation, *, finest: bool = False) -> set[Cell]:
    """What is left out is not told apart: a GPU that is new has no runs of its own, and neither has a new stack."""
    kinds = zip(told.runs.stacks.tolist(), told.chips.tolist(), told.unusual.tolist(), strict=True)
    found = set()
    for stack, chip, unusual in set(kinds):
        own_stack = EVERY if axis is Situation.STACK else stack
        own_chip = EVERY if axis in (Situation.GPU, Situation.GPU_ANYWHERE) else chip
        cell = Cell(stack=own_stack, chip=own_chip, unusual=unusual)
        found |= {cell} if finest else set(_ever_wider(cell, axis))
    return found


def _in(told: Residuals, cell: Cell) -> Mask:
    mask = told.unusual == cell.unusual
    if cell.stack != EVERY:
        mask = mask & (told.runs.stacks == cell.stack)
    if cell.chip != EVERY:
        mask = mask & (told.chips == cell.chip)
    return np.asarray(mask, np.bool_)
