"""A match of a rule on one rank: the time that its cause takes there, and the figures that show it."""

from collections.abc import Mapping
from dataclasses import field

import numpy as np

from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.values import dataclass

MOST_PLACES = 8  # intervals that are kept as evidence


@dataclass(frozen=True, kw_only=True, slots=True)
class RankMatch:
    """Times are inside steps. What one rule claims, no other rule of the rank claims."""

    code: str
    claimed_ns: I64  # for each step: claimed by this rule and no other
    alone_ns: I64  # for each step: what it would claim if there were no other rule
    accounts: Mapping[str, int]  # of the claimed time: the account, or "compute" for all of those of kernels
    places: Intervals  # the longest claimed stretches, in order of time
    figures: Mapping[str, float] = field(default_factory=dict)  # those of several ranks are added
    names: Mapping[str, str] = field(default_factory=dict)


def longest(time: Intervals, most: int = MOST_PLACES) -> Intervals:
    """The longest stretches, in order of time."""
    chosen = np.sort(np.argsort(time.start - time.end, kind="stable")[:most])
    return Intervals(time.start[chosen], time.end[chosen])
