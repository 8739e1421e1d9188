"""When backward passes and optimizers ran, as the host saw it, and how many passes were left before an optimizer."""

from dataclasses import field

import numpy as np

from redline.ledger.rank.name_matching import matching
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import Kind, Timeline
from redline.trace import schema
from redline.values import dataclass

FORWARD, OPTIMIZER, AFTER_BACKWARD = 0, -1, -2
"""Instead of the number of a backward pass: in none of them, in an optimizer, and after the last pass before one."""


def _none() -> I64:
    return np.empty(0, np.int64)


@dataclass(frozen=True, kw_only=True)
class Passes:
    """Backward passes in order of time, each from its first node to its last."""

    backward: Intervals
    optimizer: Intervals = field(default_factory=Intervals.empty)
    left: I64 = field(default_factory=_none)  # 1: the last pass before an optimizer steps, 2: the one before it, ...
    until_ns: I64 = field(default_factory=_none)  # the optimizer, or the end of the step, that each pass precedes
    over_ns: I64 = field(default_factory=_none)  # callbacks of the pass may run until then: what comes next begins
    lanes: I64 = field(default_factory=_none)  # threads that ran nodes and run callbacks; for a GPU not the main one

    def at(self, host_ns: I64) -> I64:
        """For each time `left` of the pass that was running; where none was, one of the numbers above."""
        return self._at(host_ns, self.backward.end)

    def at_or_after(self, host_ns: I64) -> I64:
        """The same, if what runs right after the last node belongs to the pass: autograd flushes gradients there."""
        return self._at(host_ns, self.over_ns)

    def _at(self, host_ns: I64, end_ns: I64) -> I64:
        number = np.searchsorted(self.backward.start, host_ns, side="right")  # of the pass begun last, from 1
        running = host_ns < np.append(np.iinfo(np.int64).min, end_ns)[number]
        is_after = (np.append(FORWARD, self.left)[number] == 1) & (host_ns < np.append(0, self.until_ns)[number])
        rest = np.where(self.optimizer.contains(host_ns), OPTIMIZER, np.where(is_after, AFTER_BACKWARD, FORWARD))
        number_of_pass: I64 = np.where(running, np.append(FORWARD, self.left)[number], rest)
        return number_of_pass


def passes_of(timeline: Timeline) -> Passes:
    """Nodes of one pass follow each other; a forward operator between two of them parts two passes."""
    spans = timeline.spans
    rows = spans.rows_of(Kind.OPERATOR)
    nodes = rows[matching(timeline, rows, schema.is_backward_node)]
    optimizer = _optimizer_time(timeline)
    whole = Intervals.union_of(spans.start_ns[nodes], spans.end_ns[nodes])
    if not len(whole):  # no node, or none that lasted
        return Passes(backward=whole, optimizer=optimizer)
    forward_ns = _forward_starts_ns(timeline, whole)
    passed = np.searchsorted(forward_ns, whole.start)
    first = np.flatnonzero(np.append(True, np.diff(passed) > 0))
    last = np.append(first[1:] - 1, len(whole) - 1)
    backward = Intervals.union_of(whole.start[first], whole.end[last])
    ends_ns = optimizer.start if len(optimizer) else timeline.steps.end_ns
    next_ns = np.sort(np.concatenate([forward_ns, optimizer.start, timeline.steps.end_ns]))
    return Passes(
        backward=backward,
        optimizer=optimizer,
        left=_counted_to(ends_ns, backward.start),
        until_ns=np.append(ends_ns, backward.end[-1])[np.searchsorted(ends_ns, backward.start)],
        over_ns=np.append(next_ns, backward.end[-1])[np.searchsorted(next_ns, backward.end)],
        lanes=np.unique(spans.lane[nodes]).astype(np.int64),
    )


def _counted_to(ends_ns: I64, start_ns: I64) -> I64:
    """For each start, how many starts there are from it to the next end, itself included."""
    group = np.searchsorted(ends_ns, start_ns)
    last = np.searchsorted(group, group, side="right")
    left: I64 = last - np.arange(len(start_ns))
    return left


def _optimizer_time(timeline: Timeline) -> Intervals:
    spans = timeline.spans
    rows = spans.rows_of(Kind.ANNOTATION)
    rows = rows[matching(timeline, rows, schema.is_optimizer_step)]
    return Intervals.union_of(spans.start_ns[rows], spans.end_ns[rows])


def _forward_starts_ns(timeline: Timeline, backward: Intervals) -> I64:
    """Starts of operators that autograd numbered outside its own nodes: those of a forward pass."""
    operators, spans = timeline.operators, timeline.spans
    forward = operators.row[(operators.sequence >= 0) & (operators.forward_thread <= 0)]
    start_ns = np.sort(spans.start_ns[forward])
    return start_ns[~backward.contains(start_ns)]
