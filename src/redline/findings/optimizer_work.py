"""Optimizers and loops over parameters: their kernels, their operators, and the time that both cost."""

import numpy as np

from redline.ledger.rank.activity import Mask
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import NONE, Kind
from redline.trace import schema
from redline.values import dataclass


@dataclass(frozen=True, kw_only=True)
class OptimizerSteps:
    """Calls of optimizers inside steps, without the closures in which they have gradients computed."""

    time: Intervals  # of the host
    calls: int
    kernels: I64  # rows; none where the CPU is the device
    operators: I64  # rows
    outer: I64  # of these: called by no other operator
    name: str  # of the first


def optimizer_steps(analysis: RankAnalysis) -> OptimizerSteps | None:
    """Nothing where no optimizer is marked."""
    spans = analysis.timeline.spans
    rows = analysis.rows_named(schema.is_optimizer_step, Kind.ANNOTATION)
    rows = rows[analysis.in_host_steps.contains(spans.start_ns[rows])]
    if not len(rows):
        return None
    start_ns = _own_start_ns(analysis, rows)
    operators = spans.rows_of(Kind.OPERATOR)
    operators = operators[_within(analysis, rows, start_ns, operators)]
    return OptimizerSteps(
        time=Intervals.union_of(start_ns, spans.end_ns[rows]),
        calls=len(rows),
        kernels=_launched_in(analysis, rows, start_ns),
        operators=operators,
        outer=outermost(analysis, operators),
        name=analysis.name(int(rows[0])).removeprefix(schema.OPTIMIZER_STEP),
    )


def outermost(analysis: RankAnalysis, operators: I64) -> I64:
    """Those that no other operator called."""
    spans = analysis.timeline.spans
    parent = spans.parent[operators]
    outer: Mask = (parent == NONE) | (spans.kind[parent] != Kind.OPERATOR)
    return operators[outer]


def launched_during(analysis: RankAnalysis, host: Intervals) -> I64:
    """Kernels that were launched while the host was there."""
    work = analysis.timeline.device_work
    known = work.take((work.launch != NONE) & (analysis.timeline.spans.kind[work.row] == Kind.KERNEL))
    chosen: I64 = known.row[host.contains(analysis.timeline.spans.start_ns[known.launch])].astype(np.int64)
    return chosen


def cost(analysis: RankAnalysis, steps: OptimizerSteps) -> Intervals:
    """The device time of its kernels, and the idle time that its host time can have caused."""
    return analysis.busy_with(steps.kernels) | analysis.idle_after(steps.time)


def _own_start_ns(analysis: RankAnalysis, rows: I64) -> I64:
    """Where each begins its own work: a closure, as Lightning gives to optimizers, ends with a backward pass."""
    spans, backward = analysis.timeline.spans, analysis.passes.backward
    last = np.searchsorted(backward.start, spans.end_ns[rows]) - 1
    is_inside = (last >= 0) & (np.append(backward.start, 0)[last] >= spans.start_ns[rows])
    closed_ns = np.minimum(np.append(backward.end, 0)[last], spans.end_ns[rows])
    return np.where(is_inside, closed_ns, spans.start_ns[rows])


def _launched_in(analysis: RankAnalysis, rows: I64, start_ns: I64) -> I64:
    """Kernels that were launched while one of these annotations was open on the same thread."""
    work = analysis.timeline.device_work
    known = work.take((work.launch != NONE) & (analysis.timeline.spans.kind[work.row] == Kind.KERNEL))
    return known.row[_within(analysis, rows, start_ns, known.launch.astype(np.int64))].astype(np.int64)


def _within(analysis: RankAnalysis, rows: I64, start_ns: I64, others: I64) -> Mask:
    """Which of the others began while one of the rows, each from its own start on, was open on their thread."""
    spans = analysis.timeline.spans
    is_inside: Mask = np.zeros(len(others), bool)
    for lane in np.unique(spans.lane[rows]).tolist():
        here = spans.lane[rows] == lane
        time = Intervals.union_of(start_ns[here], spans.end_ns[rows[here]])
        is_inside |= (spans.lane[others] == lane) & time.contains(spans.start_ns[others])
    return is_inside
