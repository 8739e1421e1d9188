"""Intervals of step time from other people's runs, to which nothing was fitted.

Nearly all runs of a stack that constants are fitted to have one source, with its versions, settings and network. A user
has others. So no plan has a narrower interval than these runs. It is made with the intervals of situations: where each
run has the wider end of both, eight of ten are held when theirs is made without the source of the run; of all runs, and
of sources that count by the root of their runs, in the mean.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from bench.plan.folds import Texts
from bench.plan.intervals import SHARE, WIDTHS, by_root, weighted_quantiles
from bench.plan.predicted_steps import predicted
from bench.plan.rows import Mask, Numbers
from bench.plan.training import Runs, expressed_untouched
from redline.hardware.catalogue import find
from redline.plan.train.search.plan_trust import (
    CellIntervals,
    MeasuredRuns,
    PlannedJob,
    kind_of,
    situation_ends,
    what_is_new,
)
from redline.plan.train.step_cost import row_of

KINDS = ("usual", "unusual")


@dataclass(frozen=True, kw_only=True)
class UserRuns:
    """Columns, one row per run; all of them logarithms of multiples of the predicted step."""

    sources: Texts
    kinds: Texts
    measured: Numbers
    low: Numbers
    """The interval of its situation."""
    high: Numbers

    def where(self, mask: Mask) -> "UserRuns":
        return UserRuns(**{name: column[mask] for name, column in vars(self).items()})


@dataclass(frozen=True, kw_only=True)
class UserInterval:
    """Of measured over predicted."""

    low: float
    high: float
    runs: int
    sources: int


def user_interval(users: UserRuns, kind: str) -> UserInterval:
    """Of models of a kind, widened or narrowed until it holds its share."""
    own = users.where(users.kinds == kind)
    low, middle, high = _quantiles(own)
    width = widening(own)
    return UserInterval(
        low=float(np.exp(middle + width * (low - middle))),
        high=float(np.exp(middle + width * (high - middle))),
        runs=len(own.measured),
        sources=len(np.unique(own.sources)),
    )


def widening(own: UserRuns) -> float:
    """The least factor at which runs whose source is left out are held as often as they should be."""
    weights = by_root(own.sources)
    low, high = WIDTHS
    for _ in range(30):
        factor = (low + high) / 2
        inside = held(own, factor)
        share = float(inside.mean() + np.average(inside, weights=weights)) / 2
        low, high = (factor, high) if share < SHARE else (low, factor)
    return high


def held(own: UserRuns, factor: float) -> Mask:
    """Per run: whether it lies in the interval of its situation widened to the one that is made without its source."""
    inside = np.zeros(len(own.measured), np.bool_)
    for source in np.unique(own.sources):
        mine = own.sources == source
        low, middle, high = _quantiles(own.where(~mine))
        least = np.minimum(own.low[mine], middle + factor * (low - middle))
        most = np.maximum(own.high[mine], middle + factor * (high - middle))
        inside[mine] = (least <= own.measured[mine]) & (own.measured[mine] <= most)
    return inside


def _quantiles(own: UserRuns) -> tuple[float, float, float]:
    tail = (1 - SHARE) / 2
    low, middle, high = weighted_quantiles(own.measured, by_root(own.sources), (tail, 0.5, 1 - tail))
    return low, middle, high


def user_runs(measured: Mapping[str, Mapping[str, MeasuredRuns]], known: Mapping[str, CellIntervals]) -> UserRuns:
    """The untouched runs with the interval of their situation, from what was fitted to and the intervals of cells."""
    runs = expressed_untouched()
    planned = list(planned_runs(runs))
    ends = np.array([situation_ends(run, what_is_new(run, measured), known)[:2] for run in planned])
    return UserRuns(
        sources=runs.sources,
        kinds=np.array([kind_of(run) for run in planned]),
        measured=np.asarray(np.log(runs.measured_s / predicted(runs).step_s), np.float64),
        low=ends[:, 0],
        high=ends[:, 1],
    )


def planned_runs(runs: Runs) -> Iterator[PlannedJob]:
    """As a user would plan them."""
    for row in range(len(runs)):
        yield PlannedJob(
            stack=str(runs.stacks[row]),
            machine=find(str(runs.machines[row])),
            dtype=str(runs.formats[row]),
            devices=int(runs.devices[row]),
            adapters=bool(runs.adapters[row]),
            model=row_of(runs.model, row),
        )
