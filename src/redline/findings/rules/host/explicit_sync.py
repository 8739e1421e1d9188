"""RL-H04: the program waits for the whole device on purpose."""

from collections.abc import Iterator

import numpy as np

from redline.findings.callers import caller_of, site_of
from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.findings.what_if import synchronising_gone
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.ledger.rank.waits import Cause, Waits
from redline.numerics import Numerics
from redline.timeline.timeline import NONE


def match(analysis: RankAnalysis) -> RuleMatch | None:
    syncs = _between_work(analysis, analysis.waits.take(analysis.waits.cause == Cause.SYNC))
    if not analysis.on_gpu or not len(syncs):
        return None
    blocked_ns = syncs.end_ns - syncs.start_ns
    return RuleMatch(
        claim=analysis.idle_after(syncs.time),
        figures={"syncs": float(len(syncs)), "blocked_ns": float(blocked_ns.sum())},
        names={
            "call": analysis.name(int(syncs.call[blocked_ns.argmax()])),
            **caller_of(analysis, syncs.call, blocked_ns),
        },
    )


def _between_work(analysis: RankAnalysis, syncs: Waits) -> Waits:
    """Those that no operator made, with work before and after: the profiler synchronises where it begins and ends."""
    launch = analysis.timeline.device_work.launch
    launched_ns = analysis.timeline.spans.start_ns[launch[launch != NONE]]
    first_ns, last_ns = launched_ns.min(initial=np.iinfo(np.int64).max), launched_ns.max(initial=0)
    return syncs.take((syncs.operator == NONE) & (syncs.start_ns > first_ns) & (syncs.end_ns < last_ns))


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "The program itself calls {call}, {syncs:,} x per step: the host is blocked for {blocked_ns}, "
        "and the device is then idle for {idle_ns}.",
        {
            "syncs": round(totals.per_step("syncs")),
            "call": totals.names["call"],
            "blocked_ns": totals.per_step("blocked_ns"),
            "idle_ns": totals.alone_ns,
        },
    )
    yield from site_of(totals)


RULE = Rule(
    code="RL-H04",
    claims=ClaimOrder.MOMENTS,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    what_if=synchronising_gone,
    figures=("syncs", "blocked_ns"),
    names=("call",),
    is_indirect=True,
)
