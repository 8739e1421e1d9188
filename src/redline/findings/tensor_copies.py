"""Copies of tensors that operators make, told apart by strides and types: layout conversions and plain copies."""

from collections.abc import Callable

import numpy as np

from redline.findings.operator_cost import argument_texts, marked, operators_in_steps, where_arguments
from redline.ledger.rank.activity import Mask
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.roofline.sizes import is_channels_first, is_channels_last, shapes_of, types_of
from redline.timeline.nesting import nearest_of
from redline.timeline.table import I64
from redline.timeline.timeline import NONE, Kind
from redline.trace import schema

AS_OFTEN = 0.5  # back as to: a loss is converted once, and what is computed in another type often both ways
_FLOATS = {"float", "double", "c10::Half", "c10::BFloat16"}  # as the profiler names them


def layout_conversions(analysis: RankAnalysis) -> I64:
    """Rows of copies from channels-first to channels-last images or back."""
    return _copies_where(analysis, _converts)


def mixed_layouts(analysis: RankAnalysis) -> I64:
    """Rows of other operators that read images of both layouts: such loops jump through memory."""
    rows = operators_in_steps(analysis)
    rows = rows[~matching(analysis.timeline, rows, schema.is_tensor_copy)]
    return rows[where_arguments(analysis.timeline, rows, _mixes)]


def plain_copies(analysis: RankAnalysis) -> I64:
    """Rows of clone, to and contiguous that the program called and that copied a tensor as it is.

    What changes type, layout or device is not among them.
    """
    copies = _copies_where(analysis, _is_plain)
    if analysis.on_gpu:
        copies = copies[~_leaves_device(analysis, copies)]
    return _asked(analysis, copies)


def type_round_trips(analysis: RankAnalysis) -> I64:
    """Rows of conversions between two floating-point types that the program called, if it converts back as often.

    Those of autocast are not among them: an operator calls them.
    """
    timeline = analysis.timeline
    rows = operators_in_steps(analysis)
    rows = rows[matching(timeline, rows, schema.is_tensor_copy)]
    _, types, _ = argument_texts(timeline, rows)
    pairs = [types_of(timeline.text(text))[:2] for text in types.tolist()]
    by_pair: dict[tuple[str, ...], list[int]] = {}
    for row, pair in zip(rows.tolist(), pairs, strict=True):
        if len(set(pair)) == 2 and _FLOATS.issuperset(pair):
            by_pair.setdefault(pair, []).append(row)
    chosen = [
        row
        for pair, listed in by_pair.items()
        if len(by_pair.get(pair[::-1], ())) >= AS_OFTEN * len(listed)
        for row in listed
    ]
    return _asked(analysis, np.array(chosen, np.int64))


def _asked(analysis: RankAnalysis, copies: I64) -> I64:
    """Rows of what the program called that made these copies."""
    spans = analysis.timeline.spans
    rows = operators_in_steps(analysis)
    rows = rows[matching(analysis.timeline, rows, schema.is_asked_copy)]
    caller = nearest_of(spans.kind == Kind.OPERATOR, spans.parent, spans.parent[rows])
    asked = nearest_of(marked(analysis, rows[caller == NONE]), spans.parent, copies)
    return np.unique(asked[asked != NONE])


def _copies_where(analysis: RankAnalysis, is_meant: Callable[[str, str, str], bool]) -> I64:
    rows = operators_in_steps(analysis)
    rows = rows[matching(analysis.timeline, rows, schema.is_tensor_copy)]
    return rows[where_arguments(analysis.timeline, rows, is_meant)]


def _leaves_device(analysis: RankAnalysis, copies: I64) -> Mask:
    """Which of these operators copied between host and device."""
    work = analysis.timeline.device_work
    work = work.take(analysis.timeline.spans.kind[work.row] == Kind.COPY)
    leaving: Mask = np.isin(copies, work.operator[~matching(analysis.timeline, work.row, schema.is_device_copy)])
    return leaving


def _converts(shapes: str, types: str, strides: str) -> bool:
    return len(shapes_of(shapes)) > 1 and _mixes(shapes, types, strides)


def _mixes(shapes: str, _: str, strides: str) -> bool:
    tensors = list(zip(shapes_of(shapes), shapes_of(strides), strict=False))
    return any(is_channels_last(*tensor) for tensor in tensors) and any(
        is_channels_first(*tensor) for tensor in tensors
    )


def _is_plain(shapes: str, types: str, strides: str) -> bool:
    """The tensor that is written has the shape, type and strides of the one that is read."""
    to_and_from = list(zip(shapes_of(shapes), types_of(types), shapes_of(strides), strict=False))[:2]
    return len(to_and_from) > 1 and to_and_from[0] == to_and_from[1] and bool(to_and_from[0][0])
