"""Operators that record a node of the graph for gradients, and the time that recording it can take."""

from math import prod

import numpy as np

from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.roofline.sizes import shapes_of
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import NONE
from redline.trace import schema

_MOST_ELEMENTS = 1 << 40  # more than any tensor has: a damaged shape


def recording_operators(analysis: RankAnalysis) -> I64:
    """Rows of operators inside steps that autograd has numbered; those of the backward pass are left out."""
    operators, spans = analysis.timeline.operators, analysis.timeline.spans
    rows = operators.row[(operators.sequence >= 0) & (operators.forward_thread <= 0)].astype(np.int64)
    rows = rows[analysis.in_steps.contains(spans.start_ns[rows])]
    return rows[~matching(analysis.timeline, rows, schema.is_backward_node)]


def number_of_nodes(analysis: RankAnalysis, rows: I64) -> int:
    """An operator that only calls others has the number of the first of them."""
    operators = analysis.timeline.operators
    return len(np.unique(operators.sequence[np.searchsorted(operators.row, rows)]))


def largest_elements(analysis: RankAnalysis, rows: I64) -> I64:
    """Of each operator the elements of its largest tensor, about as many as it makes; 0 without shapes."""
    operators, timeline = analysis.timeline.operators, analysis.timeline
    shapes = operators.shapes[np.searchsorted(operators.row, rows)]
    texts, which = np.unique(shapes, return_inverse=True)
    sizes = [_largest(timeline.text(int(text))) for text in texts]
    elements: I64 = np.array(sizes, np.int64)[which]
    return elements


def _largest(shapes: str) -> int:
    size = max((prod(shape) for shape in shapes_of(shapes)), default=0)
    return min(max(size, 0), _MOST_ELEMENTS)


def time_before_work(analysis: RankAnalysis, rows: I64, most_ns: int) -> Intervals:
    """Of each operator the time before it calls another one, where nodes are made; at most so much of it."""
    spans = analysis.timeline.spans
    parents, first = np.unique(spans.parent, return_index=True)  # spans are in order of start
    first_child = np.full(len(spans) + 1, NONE, np.int64)
    first_child[parents] = first
    child = first_child[rows]
    end_ns = np.where(child != NONE, spans.start_ns[child], spans.end_ns[rows])
    start_ns = spans.start_ns[rows]
    return Intervals.union_of(start_ns, np.minimum(end_ns, start_ns + most_ns))
