"""What faster kernels save: the end of the time that each of them owns now."""

from collections.abc import Collection

import numpy as np

from redline.analysis.rank.activity import Mask, compute_ns
from redline.analysis.rank.kernels import Floats, OperatorCalls
from redline.analysis.rank.rank_analysis import RankAnalysis
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import NONE

PRODUCTS = ("matmul", "convolution", "attention")
"""Families of operators that multiply and add: they have a peak."""


def savings(analysis: RankAnalysis, saved_ns: Floats) -> Intervals:
    """The last part of each piece of compute, as long as can be saved of it, and never longer than the piece."""
    compute = analysis.activity.compute
    saved = np.minimum(np.round(np.maximum(np.nan_to_num(saved_ns), 0)).astype(np.int64), compute.dur_ns)
    return Intervals.union_of(compute.end_ns - saved, compute.end_ns)


def of_calls(analysis: RankAnalysis, saved_ns: Floats) -> Floats:
    """For each piece of compute its part of what can be saved of its call, in proportion to its time."""
    calls = analysis.kernels.calls
    share = np.clip(np.nan_to_num(saved_ns) / np.maximum(calls.time_ns, 1), 0.0, 1.0)
    saved: Floats = compute_ns(analysis.timeline, analysis.activity) * np.append(share, 0.0)[analysis.kernels.call_of]
    return saved


def beyond(analysis: RankAnalysis, group: I64, kept_ns: Floats) -> Floats:
    """For each piece of compute what is left of it after its group has kept its time; NONE: in no group."""
    compute = analysis.activity.compute
    chosen = np.flatnonzero(group != NONE)
    order = chosen[np.argsort(group[chosen], kind="stable")]  # pieces are in order of start
    dur_ns, of = compute.dur_ns[order], group[order]
    reached_ns = np.cumsum(dur_ns)
    first = np.searchsorted(of, of)  # of each piece's group
    reached_ns -= (reached_ns - dur_ns)[first]
    saved = np.zeros(len(compute))
    saved[order] = np.clip(reached_ns - kept_ns[of], 0, dur_ns)
    return saved


def in_families(calls: OperatorCalls, families: Collection[str]) -> Mask:
    """Which calls do work of these families."""
    chosen: Mask = np.array([work.family in families for work in calls.works] + [False])[calls.work]
    return chosen
