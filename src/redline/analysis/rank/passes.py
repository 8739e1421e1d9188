"""When backward passes ran, as the host saw it, and how many there were to a step."""

from dataclasses import dataclass

import numpy as np

from redline.analysis.rank.names import matching
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import Kind, Timeline
from redline.trace import schema


@dataclass(frozen=True, kw_only=True)
class Passes:
    """Backward passes in order of time, each from its first node to its last."""

    backward: Intervals

    def number_in(self, start_ns: I64, end_ns: I64) -> I64:
        """How many passes began in each of these windows."""
        begun = np.searchsorted(self.backward.start, np.stack([start_ns, end_ns]))
        number: I64 = begun[1] - begun[0]
        return number


def passes_of(timeline: Timeline) -> Passes:
    """Nodes of one pass follow each other; a forward operator between two of them parts two passes."""
    spans = timeline.spans
    rows = spans.rows_of(Kind.OPERATOR)
    nodes = rows[matching(timeline, rows, schema.is_backward_node)]
    if not len(nodes):
        return Passes(backward=Intervals.empty())
    whole = Intervals.union_of(spans.start_ns[nodes], spans.end_ns[nodes])
    forward_ns = _forward_starts_ns(timeline, whole)
    passed = np.searchsorted(forward_ns, whole.start)
    first = np.flatnonzero(np.append(True, np.diff(passed) > 0))
    last = np.append(first[1:] - 1, len(whole) - 1)
    return Passes(backward=Intervals.union_of(whole.start[first], whole.end[last]))


def _forward_starts_ns(timeline: Timeline, backward: Intervals) -> I64:
    """Starts of operators that autograd numbered outside its own nodes: those of a forward pass."""
    operators, spans = timeline.operators, timeline.spans
    forward = operators.row[(operators.sequence >= 0) & (operators.forward_thread <= 0)]
    start_ns = np.sort(spans.start_ns[forward])
    return start_ns[~backward.contains(start_ns)]
