"""RL-C10: convolutions want their tensors in another memory layout, so every one is converted there and back."""

from collections.abc import Iterator

from redline.analysis.rank.name_matching import matching
from redline.analysis.rank.rank_analysis import RankAnalysis
from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade, Numerics
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.timeline.timeline import Kind
from redline.trace import schema

KERNEL_SHARE = 0.03  # of the kernel time


def match(analysis: RankAnalysis) -> RuleMatch | None:
    spans = analysis.timeline.spans
    rows = spans.rows_of(Kind.KERNEL)
    rows = rows[matching(analysis.timeline, rows, schema.is_layout_conversion)]
    if not analysis.on_gpu or not len(rows):
        return None
    converting_ns = int(spans.dur_ns[rows].sum())
    kernel_ns = int(spans.dur_ns[analysis.activity.compute.row].sum())
    if converting_ns <= KERNEL_SHARE * kernel_ns:
        return None
    figures = {
        "conversions": float(len(rows)),
        "converting_ns": float(converting_ns),
        "kernel_ns": float(kernel_ns),
    }
    return RuleMatch(claim=analysis.busy_with(rows), figures=figures)


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
