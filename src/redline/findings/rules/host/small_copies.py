"""RL-H06: small tensors are made on the host and copied to the device, and the host waits for each copy."""

from collections.abc import Iterator

import numpy as np

from redline.findings.callers import caller_of, site_of
from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.findings.what_if import waiting_gone
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.ledger.rank.waits import Cause, Waits
from redline.numerics import Numerics

SMALL_BYTES = 64 * 1024


def match(analysis: RankAnalysis) -> RuleMatch | None:
    writes = analysis.waits.take((analysis.waits.cause == Cause.WRITE) & (analysis.waits.bytes < SMALL_BYTES))
    return copying(analysis, writes)


def copying(analysis: RankAnalysis, writes: Waits) -> RuleMatch | None:
    """Copies to the device that the host waited for: what they took of the device's time, and what waiting cost."""
    if not analysis.on_gpu or not len(writes):
        return None
    blocked_ns = writes.end_ns - writes.start_ns
    return RuleMatch(
        claim=analysis.busy_with(writes.copy) & analysis.activity.copying | analysis.idle_after(writes.time),
        figures={
            "copies": float(len(writes)),
            "blocked_ns": float(blocked_ns.sum()),
            "size_bytes": float(np.maximum(writes.bytes, 0).sum()),  # -1 where the trace does not say
            "copying_ns": float(analysis.timeline.spans.dur_ns[writes.copy].sum()),
        },
        names=caller_of(analysis, writes.operator, blocked_ns),
    )


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "{copies:,} copies of less than 64 KB per step go to the device synchronously: the host is "
        "blocked for {blocked_ns}, and the device loses {lost_ns}.",
        {
            "copies": round(totals.per_step("copies")),
            "blocked_ns": totals.per_step("blocked_ns"),
            "lost_ns": totals.alone_ns,
        },
    )
    yield from site_of(totals)


RULE = Rule(
    code="RL-H06",
    claims=ClaimOrder.MOMENTS,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    what_if=waiting_gone(Cause.WRITE),
    figures=("copies", "blocked_ns"),
)
