"""RL-H03: Python reads values from the device, and the host waits for each."""

from collections.abc import Iterator

from redline.findings.callers import caller_of, site_of
from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.findings.rules.host.small_copies import SMALL_BYTES
from redline.findings.what_if import reading_gone
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.ledger.rank.step_borders import engine_gaps
from redline.ledger.rank.waits import Cause
from redline.numerics import Numerics
from redline.trace.steps import ENGINE_ANCHOR


def match(analysis: RankAnalysis) -> RuleMatch | None:
    """Numbers that are on the host already are not in it: nothing waits for them."""
    reads = analysis.waits.take(analysis.waits.cause == Cause.READ)
    if not analysis.on_gpu or not len(reads):
        return None
    blocked_ns = reads.end_ns - reads.start_ns
    numbers = reads.take(reads.bytes < SMALL_BYTES)  # larger ones would be copied later instead
    claim = analysis.busy_with(numbers.copy) & analysis.activity.copying | analysis.idle_after(reads.time)
    if analysis.timeline.step_anchor == ENGINE_ANCHOR:  # it has to read its tokens; what it does then is RL-ID03
        claim -= engine_gaps(analysis.timeline)
    return RuleMatch(
        claim=claim,
        figures={"reads": float(len(reads)), "blocked_ns": float(blocked_ns.sum())},
        names=caller_of(analysis, reads.operator, blocked_ns),
    )


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "The host reads values back from the device, {reads:,} x per step, mostly in {operator}: it is "
        "blocked for {blocked_ns}, and the device loses {lost_ns}.",
        {
            "reads": round(totals.per_step("reads")),
            "operator": totals.names["operator"] or "a copy",
            "blocked_ns": totals.per_step("blocked_ns"),
            "lost_ns": totals.alone_ns,
        },
    )
    yield from site_of(totals)


RULE = Rule(
    code="RL-H03",
    claims=ClaimOrder.MOMENTS,
    numerics=Numerics.BITWISE,
    grade=Grade.MEASURED,
    match=match,
    explain=explain,
    what_if=reading_gone,
    figures=("reads", "blocked_ns"),
    names=("operator",),
    is_indirect=True,  # a read takes the host's lead; what the device then waits for may be a pause or the loader
)
