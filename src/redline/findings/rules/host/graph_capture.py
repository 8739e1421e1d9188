"""RL-H27: what is launched is recorded into a graph, and does not run."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Bearing, Evidence, Grade
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.ledger.accounts import IDLE
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.timeline import CALL_KINDS
from redline.trace import schema

LEAST_SHARE = 0.05  # of the step


def match(analysis: RankAnalysis) -> RuleMatch | None:
    """Idle time from the beginning of each capture to its end, or to that of the window."""
    spans, (_, end_ns) = analysis.timeline.spans, analysis.activity.window_ns
    begin = analysis.rows_named(schema.is_capture, *CALL_KINDS)
    if not len(begin):
        return None
    ends_ns = np.sort(spans.end_ns[analysis.rows_named(schema.ends_capture, *CALL_KINDS)])
    begins_ns = spans.start_ns[begin]
    until_ns = np.append(ends_ns, end_ns)[np.searchsorted(ends_ns, begins_ns)]
    capturing = Intervals.union_of(begins_ns, np.maximum(until_ns, begins_ns))
    figures = {"captures": float(len(begin)), "capturing_ns": float((capturing & analysis.in_steps).length_ns)}
    return RuleMatch(claim=analysis.idle_in(*IDLE) & capturing, figures=figures)


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "{captures:,} graphs are captured, for {capturing_ns} of {step_ns}: what is launched meanwhile is recorded and "
        "does not run, so the device is idle for {idle_ns}.",
        {
            "captures": round(totals.figures["captures"]),
            "capturing_ns": totals.per_step("capturing_ns"),
            "step_ns": totals.step_ns,
            "idle_ns": totals.alone_ns,
        },
    )
    yield Evidence(
        "Graphs are captured once, when a job starts: this says nothing about the steps that replay them.",
        bearing=Bearing.VOIDS,
    )


RULE = Rule(
    code="RL-H27",
    claims=ClaimOrder.MOMENTS,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    figures=("captures", "capturing_ns"),
    least_share=LEAST_SHARE,
)
