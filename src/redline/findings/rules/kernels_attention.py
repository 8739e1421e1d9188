"""Attention whose scores go through memory."""

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from redline.findings.callers import outermost_operators
from redline.findings.evidence import Evidence, Grade
from redline.findings.rule import ClaimOrder, MatchTotals, RuleMatch, rule, says, value
from redline.findings.savings import beyond, savings
from redline.ledger.rank.distinct import distinct
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.roofline.roofline import NS_PER_S
from redline.roofline.sizes import product_of, shapes_of
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import NONE, Kind, Timeline
from redline.trace import schema
from redline.values import dataclass

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
    """Attention among products and softmaxes of one thread: a softmax of what a product made, which the next one reads.

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
    """A product or a softmax, by its shapes."""

    scores: Scores = UNKNOWN  # what it makes
    read: Scores = UNKNOWN  # the left side of a product
    right: Scores = UNKNOWN  # its right side, where that may be the scores: in the backward pass
    softmax: bool = False
    backward: bool = False
    adds: bool = False  # a product to something, which may be a mask


def _told(timeline: Timeline, rows: I64) -> tuple[list[_Told], I64]:
    """Each distinct operator with its shapes, and which of these each row is."""
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


STEP_SHARE = 0.1  # of the steps
_WIDTH_BYTES = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2}


def _fix_unfused_attention(totals: MatchTotals) -> Evidence | None:
    """Nothing says what a mask hides: `is_causal=True` is nowhere proposed."""
    masked, shaped = totals.figures["masked"], totals.figures["shaped"]
    if not shaped:
        return None
    if not masked:
        return Evidence(
            "Call scaled_dot_product_attention(q, k, v) of torch.nn.functional; no mask was seen. With Transformers: "
            'attn_implementation="sdpa".'
        )
    return Evidence(
        "Call scaled_dot_product_attention(q, k, v, attn_mask=mask) of torch.nn.functional, with the mask where there "
        'is one now, in {masked:,} of {attentions:,} attentions. With Transformers: attn_implementation="sdpa".',
        {"masked": round(masked), "attentions": round(shaped)},
    )


@rule(
    "RL-C07",
    ClaimOrder.MEMORY_TRAFFIC,
    Numerics.REASSOCIATION,
    Grade.MEASURED,
    figures=("masked", "shaped"),
    fix=_fix_unfused_attention,
    least_share=0.05,
    applies_to_plans=True,
)
@says(
    "{attentions:,} attentions per step run as separate matmuls and softmax; they take "
    "{attention_ns}, {attention_share} of the step.",
    attention_share=value(lambda totals: totals.per_step("attention_ns") / totals.step_ns, "attention_ns"),
)
@says("They write a score matrix of up to {scores} per head to memory.", when="scores")
@says("How long fused attention would take here is unknown, so the bound is all of that time.", when="unrated")
def unfused_attention(analysis: RankAnalysis) -> RuleMatch | None:
    """Attention as two products with a softmax between them, so that all scores go through memory."""
    attention_spans = attentions_of(analysis.timeline)
    if not attention_spans:
        return None
    group = _launched_by(analysis, attention_spans)
    on_cpu = Intervals.empty() if analysis.on_gpu else _called_in(analysis, attention_spans)
    attention_ns = on_cpu.length_ns or int(analysis.activity.compute.dur_ns[group != NONE].sum())
    if attention_ns < STEP_SHARE * analysis.steps_ns:
        return None
    kept_ns = np.array([_least_ns(analysis, attention_span) for attention_span in attention_spans])
    _, queries, keys = max(
        (attention_span.scores for attention_span in attention_spans), key=lambda scores: scores[1] * scores[2]
    )
    claim = savings(analysis, beyond(analysis, group, kept_ns))
    if not analysis.on_gpu:  # copies and calling go too, but not what the products need at best
        claim |= on_cpu - analysis.activity.computing
    return RuleMatch(
        claim,
        attentions=len(attention_spans),
        attention_ns=attention_ns,
        unrated=not kept_ns.all(),
        masked=sum(attention_span.masked for attention_span in attention_spans),
        shaped=sum(attention_span.scores != UNKNOWN for attention_span in attention_spans),
        scores=f"{queries} x {keys}" if queries else "",
    )


def _called_in(analysis: RankAnalysis, attention_spans: Sequence[AttentionSpan]) -> Intervals:
    """Time of a CPU from the call of the first product to the end of that of the last: some calls copy first."""
    spans = analysis.timeline.spans
    products = np.array([attention_span.product for attention_span in attention_spans])
    first = outermost_operators(analysis.timeline, products)
    start_ns = spans.start_ns[np.where(first == NONE, products, first)]
    end_ns = np.array([attention_span.end_ns for attention_span in attention_spans])
    return Intervals.union_of(np.minimum(start_ns, end_ns), end_ns) & analysis.in_steps


def _launched_by(analysis: RankAnalysis, attention_spans: Sequence[AttentionSpan]) -> I64:
    """For each piece of compute the attention that launched it."""
    work, spans, compute = analysis.timeline.device_work, analysis.timeline.spans, analysis.activity.compute
    launch = work.launch[np.searchsorted(work.row, compute.row)] if analysis.on_gpu else compute.row
    lane = np.array([attention_span.lane for attention_span in attention_spans])
    start_ns, end_ns = (
        np.array([getattr(attention_span, edge) for attention_span in attention_spans])
        for edge in ("start_ns", "end_ns")
    )
    group = np.full(len(compute), NONE, np.int64)
    for number in np.unique(lane).tolist():
        index = np.flatnonzero(lane == number)
        here = np.flatnonzero((launch != NONE) & (spans.lane[launch] == number))
        at_ns = spans.start_ns[launch[here]]
        last = np.searchsorted(start_ns[index], at_ns, side="right") - 1
        inside = (last >= 0) & (at_ns < end_ns[index[last]])
        group[here[inside]] = index[last[inside]]
    return group


def _least_ns(analysis: RankAnalysis, attention_span: AttentionSpan) -> float:
    """The least time of a fused attention; 0 where that is not known. A causal mask may hide half of the pairs."""
    machine, calls = analysis.machine, analysis.kernels.calls
    call = int(np.searchsorted(calls.row, attention_span.product))
    known = machine is not None and call < len(calls) and calls.row[call] == attention_span.product
    if machine is None or not known or machine.memory_bytes_per_s is None or attention_span.scores == UNKNOWN:
        return 0.0
    dtype = str(calls.dtype[call])
    peaks = [machine.peak_flops_per_s(name) for name in (("fp32", "tf32") if dtype == "fp32" else (dtype,)) if name]
    peak = max((peak.value for peak in peaks if peak is not None), default=0.0)
    if not peak or dtype not in _WIDTH_BYTES:
        return 0.0
    heads, queries, keys = attention_span.scores
    pairs = heads * queries * keys * (0.5 if queries == keys else 1.0)
    flops = (10 if attention_span.backward else 4) * pairs * attention_span.size
    size_bytes = (
        (4 if attention_span.backward else 2) * heads * (queries + keys) * attention_span.size * _WIDTH_BYTES[dtype]
    )
    return max(flops / peak, size_bytes / machine.memory_bytes_per_s.value) * NS_PER_S
