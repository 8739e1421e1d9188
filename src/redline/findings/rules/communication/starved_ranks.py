"""RL-N30: ranks wait in collectives for ranks that have no core, and so does the data that they exchange."""

from collections.abc import Iterable, Iterator

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.exposed import last_part
from redline.findings.rule import JobMatch, MatchTotals, Rule
from redline.findings.rules.host import starved_machine
from redline.ledger.job.combine import Diagnosis
from redline.ledger.rank.rank_match import RankMatch
from redline.numerics import Numerics

LEAST_SHARE = 0.01  # of the step


def match_job(diagnosis: Diagnosis) -> JobMatch | None:
    """Of the waiting no more than the most starved rank lost, of the transfer as large a share as the rank lost."""
    starved = [_starved(rank.matches) for rank in diagnosis.ranks]
    most_ns = max((starved_ns for starved_ns, _ in starved), default=0.0)
    if most_ns <= 0:
        return None
    claims = []
    for rank, (_, share), waiting in zip(diagnosis.ranks, starved, diagnosis.waiting, strict=True):
        waited = last_part(waiting, _within_1(most_ns / max(waiting.length_ns, 1)))
        claims.append(waited | last_part(rank.exposed - waiting, _within_1(share)))
    return JobMatch(claims=claims)


def _starved(matches: Iterable[RankMatch]) -> tuple[float, float]:
    """How long a rank waited for a core in all its steps, and which share of them that is."""
    for rank_match in matches:
        if rank_match.code == starved_machine.RULE.code:
            return rank_match.figures["starved_ns"], rank_match.figures["starved_share"]
    return 0.0, 0.0


def _within_1(share: float) -> float:
    """Digests come from outside."""
    return min(max(share, 0.0), 1.0)


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "{exposed_ns} of exposed communication in each {step_ns} step follows from {code}: ranks wait for others that "
        "have no core, and threads that carry the data have none either.",
        {"exposed_ns": totals.alone_ns, "step_ns": totals.step_ns, "code": starved_machine.RULE.code},
    )


RULE = Rule(
    code="RL-N30",
    claims=ClaimOrder.STARVED,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match_job=match_job,
    explain=explain,
    least_share=LEAST_SHARE,
)
