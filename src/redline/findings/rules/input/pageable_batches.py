"""RL-D03: batches are copied to the device from pageable memory, and everything waits for the copy."""

from collections.abc import Iterator

from redline.findings.callers import site_of
from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.findings.rules.host.small_copies import copying
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.ledger.rank.waits import Cause
from redline.numerics import Numerics

LARGE_BYTES = 1_000_000


def match(analysis: RankAnalysis) -> RuleMatch | None:
    writes = analysis.waits.take((analysis.waits.cause == Cause.WRITE) & (analysis.waits.bytes > LARGE_BYTES))
    if len(writes) < len(analysis.ledger.start_ns):
        return None
    return copying(analysis, writes)


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    copying_ns = totals.figures["copying_ns"]
    yield Evidence(
        "{size_bytes} per step is copied to the device at {rate_bytes_per_s} while the host waits: it is "
        "blocked for {blocked_ns}, and the device loses {lost_ns}.",
        {
            "size_bytes": totals.per_step("size_bytes"),
            "rate_bytes_per_s": totals.figures["size_bytes"] / max(copying_ns, 1) * 1e9,
            "blocked_ns": totals.per_step("blocked_ns"),
            "lost_ns": totals.alone_ns,
        },
    )
    yield from site_of(totals)


RULE = Rule(
    code="RL-D03",
    claims=ClaimOrder.MOMENTS,
    numerics=Numerics.BITWISE,
    grade=Grade.MEASURED,
    match=match,
    explain=explain,
    figures=("copying_ns", "size_bytes", "blocked_ns"),
)
