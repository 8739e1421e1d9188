"""RL-N07: parameters that the forward pass had gathered are gathered again in the backward pass."""

from collections.abc import Iterator

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.exposed import untold
from redline.findings.rule import JobMatch, MatchTotals, Rule
from redline.findings.sharding import exposed_gathers, gathered_again, parameter_gathers
from redline.ledger.job.combine import Diagnosis
from redline.numerics import Numerics

LEAST_SHARE = 0.03  # of the step


def match_job(diagnosis: Diagnosis) -> JobMatch | None:
    chosen = [gathered_again(rank, parameter_gathers(rank)) for rank in diagnosis.ranks]
    return exposed_gathers(diagnosis, chosen, LEAST_SHARE)


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "{gathers:,} all-gathers of a step fetch parameters that its first forward pass already had; they are exposed "
        "for {exposed_ns} of {step_ns}.",
        {"gathers": round(totals.per_step("gathers")), "exposed_ns": totals.alone_ns, "step_ns": totals.step_ns},
    )
    yield from untold(totals)


RULE = Rule(
    code="RL-N07",
    claims=ClaimOrder.REPEATED_GATHERS,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match_job=match_job,
    explain=explain,
    least_share=LEAST_SHARE,
    applies_to_plans=True,
)
