"""RL-N05: gradients travel in fp32, and the time that takes is exposed."""

from collections.abc import Iterator

from redline.analysis.job.combine import Diagnosis
from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade, Numerics
from redline.findings.exposed import (
    FP32,
    exchanges_where,
    gradient_exchanges,
    last_part,
    matter,
    transfer_of,
    untold,
    untold_figures,
)
from redline.findings.rule import JobMatch, MatchTotals, Rule

LEAST_SHARE = 0.05  # of the step
SAVED_SHARE = 0.5  # of the time, with half of the bytes


def match_job(diagnosis: Diagnosis) -> JobMatch | None:
    """On GPUs: DDP's hook needs NCCL or XCCL, and refuses gloo."""
    if any(rank.facts.device != "gpu" for rank in diagnosis.ranks):
        return None
    chosen = [
        gradient_exchanges(rank) & exchanges_where(rank, lambda series: series.dtype in FP32)
        for rank in diagnosis.ranks
    ]
    if not matter(diagnosis, chosen, LEAST_SHARE):
        return None
    exposed = transfer_of(diagnosis, chosen)
    claims = [last_part(time, SAVED_SHARE) for time in exposed]
    return JobMatch(claims=claims, figures={**untold_figures(diagnosis)})


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "Gradients are exchanged in fp32, exposed for {exposed_ns} of each {step_ns} step; half the "
        "bytes would take half of that.",
        {"exposed_ns": totals.alone_ns / SAVED_SHARE, "step_ns": totals.step_ns},
    )
    yield from untold(totals)


RULE = Rule(
    code="RL-N05",
    claims=ClaimOrder.GRADIENT_TRANSFER,
    numerics=Numerics.LOWER_PRECISION,
    grade=Grade.DOCUMENTED,
    match_job=match_job,
    explain=explain,
    least_share=LEAST_SHARE * SAVED_SHARE,
    applies_to_plans=True,
)
