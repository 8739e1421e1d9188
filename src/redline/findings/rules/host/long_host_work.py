"""RL-H19: the thread that launches does long work of another kind, and the device waits."""

from collections.abc import Iterator
from dataclasses import replace

from redline.analysis.accounts import IDLE, Account
from redline.analysis.rank.host_activity import host_activities
from redline.analysis.rank.rank_analysis import RankAnalysis
from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade, Numerics
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.findings.rules.host.cuda_graph import FEW_KERNELS
from redline.findings.usual_steps import without_warm_up
from redline.timeline.intervals import Intervals
from redline.timeline.timeline import CALL_KINDS, Kind
from redline.trace import schema

PAUSED_SHARE = 0.05  # of the steps


def match(analysis: RankAnalysis) -> RuleMatch | None:
    """A first step that warms up is left out; so is what other rules name: calls, compilation."""
    ledger = analysis.ledger
    steps = without_warm_up(analysis, analysis.pauses.overlap_with(ledger.start_ns, ledger.end_ns))
    whole = analysis.pauses & steps
    few = len(analysis.activity.compute) < FEW_KERNELS * len(ledger.start_ns)
    if few or not analysis.on_gpu or whole.length_ns < PAUSED_SHARE * steps.length_ns:
        return None
    pauses = whole - _otherwise_explained(analysis)
    return RuleMatch(claim=pauses, figures={"pauses": float(len(whole))}, names={"place": _place(analysis, pauses)})


def _otherwise_explained(analysis: RankAnalysis) -> Intervals:
    spans = analysis.timeline.spans
    compiling = analysis.rows_named(schema.is_compilation, Kind.OPERATOR)
    calls = spans.rows_of(*CALL_KINDS)
    return Intervals.union_of(spans.start_ns[calls], spans.end_ns[calls]) | Intervals.union_of(
        spans.start_ns[compiling], spans.end_ns[compiling]
    )


def _place(analysis: RankAnalysis, pauses: Intervals) -> str:
    """Where in the program most of the time went: the function, else the region, else the operator."""
    paused = replace(
        analysis.idle,
        accounts={account: pauses if account == Account.HOST else Intervals.empty() for account in IDLE},
        of_lane={lane: time & pauses for lane, time in analysis.idle.of_lane.items()},
    )
    sums: dict[str, int] = {}
    for activity in host_activities(analysis.timeline, paused):
        place = activity.site or activity.region or activity.name
        sums[place] = sums.get(place, 0) + activity.time_ns
    return max(sums, key=lambda place: sums[place], default="")


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "The host launches nothing for more than 5 ms at a time, {pauses:,} x in {steps:,} recorded "
        "steps. The device waits {waiting_ns} of each {step_ns} step for it.",
        {
            "pauses": round(totals.figures["pauses"]),
            "steps": totals.steps,
            "waiting_ns": totals.alone_ns,
            "step_ns": totals.step_ns,
        },
    )
    if totals.names["place"]:
        yield Evidence("Most of that time is spent in {place}.", {"place": totals.names["place"]})


RULE = Rule(
    code="RL-H19",
    claims=ClaimOrder.HOST_WORK,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    figures=("pauses",),
    names=("place",),
    least_share=PAUSED_SHARE,
)
