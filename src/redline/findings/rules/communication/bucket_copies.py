"""RL-N03: DDP copies every gradient into a bucket and back."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.timeline import Kind
from redline.trace import schema


def match(analysis: RankAnalysis) -> RuleMatch | None:
    """Copies back into gradients can all be saved; of those into buckets most, but only where there are both."""
    spans = analysis.timeline.spans
    operators = spans.rows_of(Kind.OPERATOR)
    back, into = np.zeros(len(spans), bool), np.zeros(len(spans), bool)
    back[operators[matching(analysis.timeline, operators, schema.copies_from_bucket)]] = True
    into[operators[matching(analysis.timeline, operators, schema.copies_into_bucket)]] = True
    if not analysis.on_gpu or not back.any():
        return None
    copies = analysis.launched_under(back | into)
    figures = {
        "back": float(len(analysis.launched_under(back))),
        "into": float(len(analysis.launched_under(into))),
        "copying_ns": float(analysis.busy_with(copies).length_ns),
    }
    return RuleMatch(claim=analysis.busy_with(copies) | analysis.gaps_before(copies), figures=figures)


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "DDP copies gradients one by one: {into:,} times per step into a bucket and {back:,} times back. "
        "These copies and the gaps while they are launched take {copying_ns} of each {step_ns} step.",
        {
            "into": round(totals.per_step("into")),
            "back": round(totals.per_step("back")),
            "copying_ns": totals.alone_ns,
            "step_ns": totals.step_ns,
        },
    )


RULE = Rule(
    code="RL-N03",
    claims=ClaimOrder.DDP_COPIES,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    figures=("into", "back"),
)
