"""Time of which only the amount is known in each step, placed in it.

Counters say how much of a step a thread ran, waited for a core or slept, not when. A rule that claims such time takes
the same small part of everything that happened in the step.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt

from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64

Floats = npt.NDArray[np.float64]
_SLICES = 1000  # of a step: an account's part of the claim is known to a thousandth


def spread(analysis: RankAnalysis, amounts_ns: Floats, within: Intervals) -> Intervals:
    """As much of each step as its amount says, taken evenly from the time `within`, and no more than there is."""
    borders = zip(analysis.ledger.start_ns.tolist(), analysis.ledger.end_ns.tolist(), strict=True)
    steps = [within.clip(start_ns, end_ns) for start_ns, end_ns in borders]
    pieces = [Intervals.empty(), *map(_even_part, steps, amounts_ns.tolist())]
    return Intervals.union_of(
        np.concatenate([piece.start for piece in pieces]), np.concatenate([piece.end for piece in pieces])
    )


def _even_part(time: Intervals, amount_ns: float) -> Intervals:
    """The end of each of many equal slices of the time."""
    total_ns = time.length_ns
    share = min(amount_ns / total_ns, 1.0) if total_ns else 0.0
    if share <= 0:
        return Intervals.empty()
    borders = np.linspace(0, total_ns, min(_SLICES, total_ns) + 1)
    ends = np.round(borders[1:]).astype(np.int64)
    starts = np.round(borders[1:] - share * np.diff(borders)).astype(np.int64)
    return Intervals.union_of(_moment(time, starts, "right"), _moment(time, ends, "left")) & time


def _moment(time: Intervals, places: I64, side: Literal["left", "right"]) -> I64:
    """When so much of the time has passed; `side` says on which side of a gap."""
    reached = np.cumsum(time.end - time.start)
    at = np.minimum(np.searchsorted(reached, places, side=side), len(reached) - 1)
    return np.asarray(time.end[at] - (reached[at] - places), np.int64)
