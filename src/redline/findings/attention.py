"""Where attention is computed as separate products and softmax, told by the shapes of neighbouring operators."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from redline.ledger.rank.distinct import distinct
from redline.ledger.rank.name_matching import matching
from redline.roofline.sizes import product_of, shapes_of
from redline.timeline.table import I64
from redline.timeline.timeline import NONE, Kind, Timeline
from redline.trace import schema

Scores = tuple[int, int, int]  # of all heads, queries, keys
UNKNOWN: Scores = (0, 0, 0)


@dataclass(frozen=True, kw_only=True)
class AttentionSpan:
    """One attention on a thread of the host, from its first product to its last."""

    lane: int
    start_ns: int
    end_ns: int
    product: int  # row of its first product
    scores: Scores = UNKNOWN
    size: int = 0  # of a head
    backward: bool = False
    masked: bool = False  # scores are changed between the product and the softmax by more than a factor


def attentions_of(timeline: Timeline) -> list[AttentionSpan]:
    """Ordered by thread and time. Without shapes, only what PyTorch itself calls so is found."""
    spans = timeline.spans
    rows = spans.rows_of(Kind.OPERATOR)
    softmax = rows[matching(timeline, rows, schema.is_softmax)]
    if not len(softmax):
        return []
    rows = rows[matching(timeline, rows, lambda name: schema.is_softmax(name) or schema.is_batched_product(name))]
    lanes = np.unique(spans.lane[softmax]).tolist()
    on_lanes = [
        attention_span for lane in lanes for attention_span in _on_lane(timeline, rows[spans.lane[rows] == lane])
    ]
    return on_lanes or list(_named(timeline))


def _on_lane(timeline: Timeline, rows: I64) -> Iterator[AttentionSpan]:
    """Of products and softmaxes of one thread, in order: a softmax of what a product made, which the next one reads.

    In the backward pass there are two products on each side, in an order that depends on the version.
    """
    spans = timeline.spans
    lane, start_ns, end_ns = spans.lane[rows], spans.start_ns[rows], spans.end_ns[rows]
    told, which = _told(timeline, rows)
    masking_ns = _masking_ns(timeline, int(lane[0]))
    is_softmax = np.array([recorded.softmax for recorded in told])[which]
    for place in np.flatnonzero(is_softmax).tolist():
        middle = told[which[place]]
        first, last = place - 1 - middle.backward, place + 1 + middle.backward
        if first < 0 or last >= len(rows) or middle.scores[1] < 2:
            continue
        before = [told[number] for number in which[first:place]]
        after = [told[number] for number in which[place + 1 : last + 1]]
        making = next((product for product in before if product.scores == middle.scores), _Told(softmax=True))
        is_read = any(
            product.read == middle.scores or (middle.backward and product.right == middle.scores) for product in after
        )
        if making.softmax or not is_read:
            continue
        yield AttentionSpan(
            lane=int(lane[first]),
            start_ns=int(start_ns[first]),
            end_ns=int(end_ns[last]),
            product=int(rows[first]),
            scores=middle.scores,
            size=making.read[2],
            backward=middle.backward,
            masked=making.adds or _is_any_between(masking_ns, int(end_ns[place - 1]), int(start_ns[place])),
        )


def _masking_ns(timeline: Timeline, lane: int) -> I64:
    """When operators began that may put a mask on scores, on one thread."""
    rows = timeline.rows_of_lane(lane)
    rows = rows[timeline.spans.kind[rows] == Kind.OPERATOR]
    start_ns: I64 = timeline.spans.start_ns[rows[matching(timeline, rows, schema.may_mask)]]
    return start_ns


def _is_any_between(times_ns: I64, from_ns: int, to_ns: int) -> bool:
    first, last = np.searchsorted(times_ns, [from_ns, to_ns])
    return bool(first < last)


def _named(timeline: Timeline) -> Iterator[AttentionSpan]:
    spans = timeline.spans
    rows = spans.rows_of(Kind.OPERATOR)
    for row in rows[matching(timeline, rows, schema.is_math_attention)].tolist():
        start_ns = int(spans.start_ns[row])
        end_ns = start_ns + int(spans.dur_ns[row])
        yield AttentionSpan(lane=int(spans.lane[row]), start_ns=start_ns, end_ns=end_ns, product=row)


@dataclass(frozen=True, slots=True)
class _Told:
    """What shapes tell of a product or a softmax."""

    scores: Scores = UNKNOWN  # what it makes
    read: Scores = UNKNOWN  # the left side of a product
    right: Scores = UNKNOWN  # its right side, where that may be the scores: in the backward pass
    softmax: bool = False
    backward: bool = False
    adds: bool = False  # a product to something, which may be a mask


def _told(timeline: Timeline, rows: I64) -> tuple[list[_Told], I64]:
    """Of each distinct operator with its shapes, and which of these each row is."""
    operators = timeline.operators
    place = np.minimum(np.searchsorted(operators.row, rows), len(operators) - 1)
    shapes = np.where(operators.row[place] == rows, operators.shapes[place], NONE)
    keys, which = distinct(timeline.spans.name[rows], shapes)
    return [_read(timeline.text(name), timeline.text(shape)) for name, shape in keys.T.tolist()], which


def _read(name: str, text: str) -> _Told:
    if schema.is_softmax(name):
        shape = next(iter(shapes_of(text)), ())
        scores = (prod(shape[:-2]), shape[-2], shape[-1]) if len(shape) > 2 else UNKNOWN
        return _Told(scores=scores, softmax=True, backward="backward" in name)
    product = product_of(name, text)
    if product is None:
        return _Told()
    batch, rows, inner, columns = product.batch, product.rows, product.inner, product.columns
    return _Told(
        scores=(batch, rows, columns),
        read=(batch, rows, inner),
        right=(batch, inner, columns),
        adds=schema.is_adding_product(name),
    )
