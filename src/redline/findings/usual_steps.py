"""Steps of usual length, and first steps that only warm up."""

import numpy as np

from redline.ledger.rank.activity import Mask
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64

_USUAL = 1.3  # times the median: longer steps are not steady ones
_WARMING = 1.5  # times what later steps have of something: a first step with more of it warms up


def is_usual(steps_ns: I64) -> Mask:
    usual: Mask = steps_ns <= _USUAL * np.median(steps_ns) if len(steps_ns) else np.zeros(0, bool)
    return usual


def without_warm_up(analysis: RankAnalysis, amounts: I64) -> Intervals:
    """All steps; without the first, where that has more of something than later steps have on average."""
    start_ns, end_ns = analysis.ledger.start_ns, analysis.ledger.end_ns
    warms_up = len(amounts) > 1 and amounts[0] > _WARMING * amounts[1:].mean()
    first = int(warms_up)
    return Intervals.union_of(start_ns[first:], end_ns[first:])
