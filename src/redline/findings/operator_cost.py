"""Operators chosen by their arguments or callers, and what they cost: their time on a CPU, their kernels on a GPU."""

from collections.abc import Callable

import numpy as np

from redline.ledger.rank.activity import Mask
from redline.ledger.rank.distinct import distinct
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.roofline.arguments import Shape
from redline.roofline.sizes import shapes_of
from redline.timeline.intervals import Intervals
from redline.timeline.nesting import nearest_of
from redline.timeline.table import I64
from redline.timeline.timeline import NONE, Kind, Timeline

CALL_NS = 50_000  # that Python and dispatch take at most to call an operator; what is before it is something else


def operators_in_steps(analysis: RankAnalysis) -> I64:
    """Rows of operators that began inside steps, in time order."""
    return analysis.operators_in_steps


def marked(analysis: RankAnalysis, rows: I64) -> Mask:
    """A mask over all spans with these rows set."""
    chosen: Mask = np.zeros(len(analysis.timeline.spans), bool)
    chosen[rows] = True
    return chosen


def are_inside(analysis: RankAnalysis, rows: I64, around: Mask) -> Mask:
    """Which rows are in the mask themselves or are called by a span that is."""
    inside: Mask = nearest_of(around, analysis.timeline.spans.parent, rows) != NONE
    return inside


def outermost(analysis: RankAnalysis, rows: I64) -> I64:
    """Those of the rows that none of the others calls."""
    parent = analysis.timeline.spans.parent
    is_called: Mask = nearest_of(marked(analysis, rows), parent, parent[rows]) != NONE
    return rows[~is_called]


def cost_of(analysis: RankAnalysis, rows: I64) -> Intervals:
    """Device time that goes with these operators and all that they call, and the gaps in which they were launched."""
    spans = analysis.timeline.spans
    if analysis.on_gpu:
        work = analysis.launched_under(marked(analysis, rows))
        busy = analysis.busy_with(work)
    else:
        work = spans.rows_of(Kind.OPERATOR)
        work = work[are_inside(analysis, work, marked(analysis, rows))]
        busy = Intervals.union_of(spans.start_ns[rows], spans.end_ns[rows])
    gaps = analysis.gaps_before(work)
    return busy | Intervals.union_of(np.maximum(gaps.start, gaps.end - CALL_NS), gaps.end)


def launched_by(analysis: RankAnalysis, rows: I64) -> I64:
    """Kernels that these operators launched on a GPU; on a CPU the operators themselves are claimed."""
    return analysis.launched_under(marked(analysis, rows)) if analysis.on_gpu else np.empty(0, np.int64)


def read_again(analysis: RankAnalysis, copies: I64) -> Intervals:
    """The same time again after each copy of a CPU: what reads the copy finds it outside the cache."""
    spans = analysis.timeline.spans
    if analysis.on_gpu:
        return Intervals.empty()
    return Intervals.union_of(spans.end_ns[copies], spans.end_ns[copies] + spans.dur_ns[copies])


def backward_of(analysis: RankAnalysis, rows: I64) -> I64:
    """Nodes of the backward pass that belong to these forward operators, or to operators that they call."""
    operators = analysis.timeline.operators
    nodes = operators.take(operators.forward != NONE)
    chosen = are_inside(analysis, nodes.forward.astype(np.int64), marked(analysis, rows))
    return nodes.row[chosen].astype(np.int64)


def argument_texts(timeline: Timeline, rows: I64) -> tuple[I64, I64, I64]:
    """Texts of the shapes, types and strides of the arguments of each row; NONE where they were not recorded."""
    operators = timeline.operators
    if not len(operators):
        unknown = np.full(len(rows), NONE, np.int64)
        return unknown, unknown, unknown
    place = np.minimum(np.searchsorted(operators.row, rows), len(operators) - 1)
    is_there = operators.row[place] == rows
    shapes, types, strides = (
        np.where(is_there, column[place], NONE) for column in (operators.shapes, operators.dtypes, operators.strides)
    )
    return shapes, types, strides


def argument_shapes(timeline: Timeline, rows: I64) -> list[tuple[Shape, ...]]:
    """Shapes of the arguments of each row; each distinct text is read once."""
    texts = argument_texts(timeline, rows)[0].tolist()
    shapes = {text: shapes_of(timeline.text(text)) for text in set(texts)}
    return [shapes[text] for text in texts]


def where_arguments(timeline: Timeline, rows: I64, is_meant: Callable[[str, str, str], bool]) -> Mask:
    """Which rows have shapes, types and strides that are meant; each distinct call is looked at once."""
    keys, which = distinct(*argument_texts(timeline, rows))
    meant = [is_meant(*map(timeline.text, key)) for key in keys.T.tolist()]
    chosen: Mask = np.array(meant, bool)[which]
    return chosen
