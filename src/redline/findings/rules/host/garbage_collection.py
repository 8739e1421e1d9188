"""RL-H09: Python's garbage collector runs in the middle of steps."""

from collections.abc import Iterator

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.timeline import Kind
from redline.trace import schema


def match(analysis: RankAnalysis) -> RuleMatch | None:
    """Only collections that were recorded: a slow step alone does not tell why it was slow."""
    pauses = collecting(analysis) & analysis.in_steps
    if not len(pauses):
        return None
    figures = {"pauses": float(len(pauses)), "paused_ns": float(pauses.length_ns)}
    return RuleMatch(claim=analysis.idle_after(pauses), figures=figures)


def collecting(analysis: RankAnalysis) -> Intervals:
    """When the collector ran; but for the compiler's garbage, which RL-H11 is about."""
    spans, recorded = analysis.timeline.spans, analysis.timeline.evidence.collections
    rows = analysis.rows_named(schema.is_garbage_collection, Kind.PYTHON)
    pauses = Intervals.union_of(spans.start_ns[rows], spans.end_ns[rows])
    if recorded is not None:  # by Python itself; with stacks, the same runs stand in the trace as well
        pauses |= Intervals.union_of(recorded.begin_ns, recorded.begin_ns + recorded.dur_ns)
    return pauses - analysis.compiling


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "The garbage collector runs {pauses:,} times in {steps:,} steps and stops Python for {paused_ns} "
        "per step; the device loses {lost_ns}.",
        {
            "pauses": round(totals.figures["pauses"]),
            "steps": totals.steps,
            "paused_ns": totals.per_step("paused_ns"),
            "lost_ns": totals.alone_ns,
        },
    )


RULE = Rule(
    code="RL-H09",
    claims=ClaimOrder.MOMENTS,
    numerics=Numerics.BITWISE,
    grade=Grade.MEASURED,
    match=match,
    explain=explain,
    figures=("pauses", "paused_ns"),
)
