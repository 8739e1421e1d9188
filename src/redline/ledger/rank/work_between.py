"""Where work between steps ends and the next forward pass begins, if no data loader marks that.

A forward pass may begin with layers that compute no gradients, so the first operator whose gradient is computed is not
always its first. A forward pass begins with a layer; what computes layers and is none, an evaluation, ends with a
number that Python reads, or with a pause; or it is layers without gradients that most steps do not have.
"""

import numpy as np

from redline.ledger.rank.name_matching import matching
from redline.timeline.table import I64
from redline.timeline.timeline import NONE, Kind, Timeline
from redline.trace import schema

SILENCE_NS = 5_000_000  # a host that runs no operator for longer does something else than compute forward


class WorkBetween:
    """Operators of the thread that computes forward, as far as they tell."""

    def __init__(self, timeline: Timeline, lane: int, passes_ns: I64) -> None:
        """`passes_ns`: when backward passes began, one of each step."""
        spans, operators = timeline.spans, timeline.operators
        rows = spans.rows_of(Kind.OPERATOR)
        rows = rows[spans.lane[rows] == lane]
        parent = spans.parent[rows]
        outer = rows[(parent == NONE) | (spans.kind[parent] != Kind.OPERATOR)]
        reads = rows[matching(timeline, rows, schema.reads_scalar)]
        layers = outer[matching(timeline, outer, schema.is_layer_operator)]
        self._start_ns, self._end_ns = spans.start_ns[outer], spans.end_ns[outer]
        self._read_ns = spans.end_ns[reads]
        self._layer_ns = spans.start_ns[layers]
        numbered = operators.row[operators.sequence >= 0]  # autograd numbers what runs while gradients are on
        self._no_grad_ns = self._layer_ns[~np.isin(layers, numbered)]
        per_pass = np.diff(np.searchsorted(self._no_grad_ns, passes_ns))
        self._usual_no_grad = int(np.median(per_pass)) if len(per_pass) else len(layers)

    def until(self, start_ns: int, forward_ns: int) -> int:
        """When it ends: where the forward pass begins of which an operator at `forward_ns` is known."""
        first, last = np.searchsorted(self._start_ns, (start_ns, forward_ns)).tolist()
        if first == last:
            return forward_ns
        pause_ns = _last_pause(self._start_ns[first:last], self._end_ns[first:last], forward_ns)
        over_ns = max(pause_ns, _previous(self._read_ns, start_ns, forward_ns), self._unusual(start_ns, forward_ns))
        return _next(self._layer_ns, over_ns, forward_ns)

    def _unusual(self, start_ns: int, forward_ns: int) -> int:
        """When the last layer without gradients begins that most steps do not have, plus 1; 0 without one."""
        first, last = np.searchsorted(self._no_grad_ns, (start_ns, forward_ns)).tolist()
        unusual = last - first - self._usual_no_grad
        return int(self._no_grad_ns[first + unusual - 1]) + 1 if unusual > 0 else 0


def _last_pause(start_ns: I64, end_ns: I64, forward_ns: int) -> int:
    """When the last pause ends before the forward pass, 0 without one."""
    gaps = np.append(start_ns[1:], forward_ns) - np.maximum.accumulate(end_ns)
    long = np.flatnonzero(gaps > SILENCE_NS)
    return int(np.append(start_ns, forward_ns)[long[-1] + 1]) if len(long) else 0


def _next(times_ns: I64, start_ns: int, end_ns: int) -> int:
    """The first that lies between the two; the end where none does."""
    at = int(np.searchsorted(times_ns, start_ns))
    return min(int(times_ns[at]), end_ns) if at < len(times_ns) else end_ns


def _previous(times_ns: I64, start_ns: int, end_ns: int) -> int:
    """The last that lies between the two; the start where none does."""
    inside = times_ns[(times_ns > start_ns) & (times_ns <= end_ns)]
    return int(inside.max(initial=start_ns))
