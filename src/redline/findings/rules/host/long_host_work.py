"""RL-H19: the thread that launches does long work of another kind, and the device waits."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.kinds_of_work import is_training
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.findings.rules.host.cuda_graph import FEW_KERNELS
from redline.findings.usual_steps import without_warm_up
from redline.ledger.accounts import IDLE, Account
from redline.ledger.rank.call_sites import CallSite, call_sites
from redline.ledger.rank.host_activity import host_activities
from redline.ledger.rank.host_phases import Phase
from redline.ledger.rank.rank_analysis import PAUSE_NS, RankAnalysis
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.timeline import CALL_KINDS, Kind
from redline.trace import schema

PAUSED_SHARE = 0.05  # of the steps
PROGRAM_SHARE = 0.5  # of the pauses on a CPU, in one function


def match(analysis: RankAnalysis) -> RuleMatch | None:
    """A first step that warms up is left out; so is what other rules name: calls, compilation."""
    ledger = analysis.ledger
    pauses = analysis.pauses if analysis.on_gpu else _pauses_of_cpu(analysis)
    steps = without_warm_up(analysis, pauses.overlap_with(ledger.start_ns, ledger.end_ns))
    whole = pauses & steps
    few = len(analysis.activity.compute) < FEW_KERNELS * len(ledger.start_ns)
    if few or whole.length_ns < PAUSED_SHARE * steps.length_ns:
        return None
    pauses = whole - _otherwise_explained(analysis)
    evidence = analysis.timeline.evidence
    sites = call_sites(evidence, pauses, lambda stack: () if is_training(stack) and not analysis.on_gpu else stack)
    if not analysis.on_gpu and not _is_program(sites, pauses):
        return None
    figures = {
        "pauses": float(len(whole)),
        "paused_ns": float(pauses.length_ns),
        "place_ns": float(sites[0].time_ns if sites else 0),
        "cpu": float(not analysis.on_gpu),
    }
    place = sites[0].site if sites and sites[0].site else _place(analysis, pauses)
    return RuleMatch(claim=pauses, figures=figures, names={"place": place})


def _pauses_of_cpu(analysis: RankAnalysis) -> Intervals:
    """Long times without an operator. What a training loop does between its steps has a rule of its own."""
    host = analysis.idle.accounts[Account.HOST]
    long = host.end - host.start > PAUSE_NS
    pauses = Intervals(host.start[long], host.end[long]) & analysis.in_steps
    return pauses - analysis.phases.time(Phase.BETWEEN) if len(analysis.passes.optimizer) else pauses


def _is_program(sites: Sequence[CallSite], pauses: Intervals) -> bool:
    """Whether samples put most of the time down to one function of the user that does not train.

    A CPU has pauses for other reasons too: Python between two operators, a thread that waits for a core.
    """
    return bool(sites) and bool(sites[0].site) and sites[0].time_ns >= PROGRAM_SHARE * pauses.length_ns


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
    values = {
        "pauses": round(totals.figures["pauses"]),
        "steps": totals.steps,
        "waiting_ns": totals.alone_ns,
        "step_ns": totals.step_ns,
    }
    if totals.figures["cpu"]:
        yield Evidence(
            "No operator runs for more than 5 ms at a time, {pauses:,} x in {steps:,} recorded steps: {waiting_ns} of "
            "each {step_ns} step.",
            values,
        )
    else:
        yield Evidence(
            "The host launches nothing for more than 5 ms at a time, {pauses:,} x in {steps:,} recorded "
            "steps. The device waits {waiting_ns} of each {step_ns} step for it.",
            values,
        )
    share = min(totals.figures["place_ns"] / max(totals.figures["paused_ns"], 1.0), 1.0)
    if totals.names["place"] and share:
        yield Evidence(
            "{place_share} of that time is spent in {place}: do it less often, with tensors, or in another process.",
            {"place_share": share, "place": totals.names["place"]},
        )
    elif totals.names["place"]:
        yield Evidence("Most of that time is spent in {place}.", {"place": totals.names["place"]})


RULE = Rule(
    code="RL-H19",
    claims=ClaimOrder.HOST_WORK,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    figures=("pauses", "paused_ns", "place_ns", "cpu"),
    names=("place",),
    least_share=PAUSED_SHARE,
)
