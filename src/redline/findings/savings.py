"""Time that faster kernels save: the end of what each of them owns now."""

from collections.abc import Collection

import numpy as np

from redline.ledger.rank.activity import Mask, compute_ns
from redline.ledger.rank.kernels import Floats, OperatorCalls
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import NONE

PRODUCTS = ("matmul", "convolution", "attention")
"""Families of operators that multiply and add: they have a peak."""
CORE_BYTES_PER_S = 10e9  # that a core of any server reads from its memory
FLOPS_PER_BYTE = 16  # that a core computes in the time in which it reads a byte


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


def work_that_stays(analysis: RankAnalysis) -> Intervals:
    """The first part of each piece of compute on a CPU: its arithmetic, and the traffic of what is no product, at the
    best rate that a core is known or seen to have. However calls are put together, this is left of them.

    Weights of a product are read once for all that it is computed for: of products, only the arithmetic stays.
    """
    calls = analysis.kernels.calls
    if not len(calls):
        return Intervals.empty()
    time_ns, is_product = np.maximum(calls.time_ns, 1), in_families(calls, PRODUCTS)
    bytes_per_ns = _usual_best(calls.bytes, time_ns, CORE_BYTES_PER_S / 1e9)
    flops_per_ns = _usual_best(calls.flops, time_ns, FLOPS_PER_BYTE * bytes_per_ns)
    math_ns = np.where(np.isfinite(calls.math_ns), calls.math_ns, calls.flops / flops_per_ns)
    stays_ns = np.where(is_product, math_ns, np.maximum(math_ns, calls.bytes / bytes_per_ns))
    stays_ns /= _running_share(analysis)  # what waits for a core takes longer, whatever it is
    compute = analysis.activity.compute
    return Intervals.union_of(compute.start_ns, compute.start_ns + of_calls(analysis, stays_ns).astype(np.int64))


def _running_share(analysis: RankAnalysis) -> float:
    """The share that the training thread ran of the time in which it wanted a core; 1 where that was not counted."""
    steps = analysis.timeline.evidence.steps
    if not len(steps) or not steps.within("run_queue_ns", 0, 1 << 62):
        return 1.0
    cpu_ns, waited_ns = (float(analysis.counted(ns).sum()) for ns in (steps.cpu_ns, steps.run_queue_ns))
    return max(cpu_ns, 1.0) / max(cpu_ns + waited_ns, 1.0)


def _usual_best(amounts: Floats, time_ns: I64, least: float) -> float:
    """The rate that a tenth of the calls reach: single ones are timed too roughly."""
    return max(float(np.quantile(amounts / time_ns, 0.9)), least)


def in_families(calls: OperatorCalls, families: Collection[str]) -> Mask:
    """Which calls do work of these families."""
    chosen: Mask = np.array([work.family in families for work in calls.works] + [False])[calls.work]
    return chosen
