"""RL-C10: convolutions want their tensors in another memory layout, so every one is converted there and back."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.operator_cost import cost_of, marked, read_again
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.findings.tensor_copies import layout_conversions, mixed_layouts
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import Kind
from redline.trace import schema

KERNEL_SHARE = 0.03  # of the busy time of the device


def match(analysis: RankAnalysis) -> RuleMatch | None:
    copies = layout_conversions(analysis)
    converting, conversions = _conversions(analysis, copies)
    busy_ns = int(analysis.activity.compute.dur_ns.sum()) + (
        0 if analysis.on_gpu else analysis.activity.copying.length_ns
    )
    if converting.length_ns <= KERNEL_SHARE * busy_ns:
        return None
    figures = {
        "conversions": float(conversions),
        "converting_ns": float(converting.length_ns),
        "kernel_ns": float(busy_ns),
    }
    claim = (
        converting
        | cost_of(analysis, copies)
        | read_again(analysis, copies)
        | cost_of(analysis, mixed_layouts(analysis))
    )
    return RuleMatch(claim=claim if len(copies) else converting, figures=figures)


def _conversions(analysis: RankAnalysis, copies: I64) -> tuple[Intervals, int]:
    """Device time of conversions, and how many they are: kernels of libraries, and copies that PyTorch makes."""
    if not analysis.on_gpu:
        spans = analysis.timeline.spans
        return Intervals.union_of(spans.start_ns[copies], spans.end_ns[copies]), len(copies)
    rows = analysis.timeline.spans.rows_of(Kind.KERNEL)
    rows = rows[matching(analysis.timeline, rows, schema.is_layout_conversion)]
    if len(copies):
        rows = np.union1d(rows, analysis.launched_under(marked(analysis, copies)))
    return analysis.busy_with(rows), len(rows)


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    share = totals.figures["converting_ns"] / max(totals.figures["kernel_ns"], 1)
    yield Evidence(
        "{conversions:,} kernels per step convert between NCHW and NHWC, {converting_share} of the kernel time.",
        {"conversions": round(totals.per_step("conversions")), "converting_share": share},
    )


RULE = Rule(
    code="RL-C10",
    claims=ClaimOrder.AVOIDABLE_KERNELS,
    numerics=Numerics.REASSOCIATION,
    grade=Grade.MEASURED,
    match=match,
    explain=explain,
    figures=("converting_ns", "kernel_ns", "conversions"),
    applies_to_plans=True,
)
