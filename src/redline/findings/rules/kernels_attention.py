"""Attention whose scores go through memory."""

from collections.abc import Sequence

import numpy as np

from redline.findings.attention import UNKNOWN, AttentionSpan, attentions_of
from redline.findings.callers import outermost_operators
from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.rule import (
    MatchTotals,
    RuleMatch,
    rule,
    says,
    value,
)
from redline.findings.savings import beyond, savings
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.roofline.roofline import NS_PER_S
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import NONE

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
    """What a fused attention needs at best; 0 where that is not known. A causal mask may hide half of the pairs."""
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
