"""RL-R06, a remark: recording slowed the host, so that the idle time in the trace is more than that of the job."""

from collections.abc import Iterator

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Bearing, Evidence, Grade
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.findings.rules.host.cuda_graph import has_stacks
from redline.ledger.accounts import Account
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals

HOST_SHARE = 0.1  # of the steps


def match(analysis: RankAnalysis) -> RuleMatch | None:
    """Stacks cost most; allocator events and modules cost less, and are named where there are no stacks."""
    stacks, events = has_stacks(analysis), len(analysis.timeline.memory)
    modules = "modules" in analysis.timeline.metadata.recorded
    waiting_ns = (analysis.idle_in(Account.HOST, Account.SYNC) & analysis.in_steps).length_ns
    if not (stacks or events or modules) or waiting_ns <= HOST_SHARE * analysis.steps_ns:
        return None
    figures = {
        "waiting_ns": float(waiting_ns),
        "stacks": float(stacks),
        "python_calls": float(len(analysis.timeline.python_calls)),
        "events": float(events),
    }
    return RuleMatch(claim=Intervals.empty(), figures=figures)


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    if totals.figures["stacks"]:
        yield Evidence(
            "Python stacks were recorded, {python_calls:,} calls per step: without them the host is faster.",
            {"python_calls": round(totals.per_step("python_calls"))},
            Bearing.WEAKENS,
        )
    elif totals.figures["events"]:
        yield Evidence(
            "Allocations were recorded, {events:,} events per step: without them the host is faster.",
            {"events": round(totals.per_step("events"))},
            Bearing.WEAKENS,
        )
    else:
        yield Evidence("Modules were recorded: without them the host is faster.", bearing=Bearing.WEAKENS)
    yield Evidence(
        "The device waits for the host {waiting_share} of the step, and recording is part of the host's work.",
        {"waiting_share": totals.per_step("waiting_ns") / totals.step_ns},
    )


RULE = Rule(
    code="RL-R06",
    claims=ClaimOrder.NOTHING,
    numerics=Numerics.BITWISE,
    grade=Grade.MEASURED,
    match=match,
    explain=explain,
    figures=("stacks", "python_calls", "events", "waiting_ns"),
)
