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
    untold_share,
)
from redline.findings.rule import JobLook, Rule, Seen

LEAST_SHARE = 0.05  # of the step
SAVED_SHARE = 0.5  # of the time, with half of the bytes


def look_at_job(diagnosis: Diagnosis) -> JobLook | None:
    chosen = [
        gradient_exchanges(rank) & exchanges_where(rank, lambda series: series.dtype in FP32)
        for rank in diagnosis.ranks
    ]
    if not matter(diagnosis, chosen, LEAST_SHARE):
        return None
    exposed = transfer_of(diagnosis, chosen)
    claims = [last_part(time, SAVED_SHARE) for time in exposed]
    return JobLook(claims=claims, figures={"untold_share": untold_share(diagnosis)})


def explain(seen: Seen) -> Iterator[Evidence]:
    yield Evidence(
        "Gradients are exchanged in fp32, exposed for {exposed_ns} of each step of {step_ns}; half of the bytes take "
        "half of that.",
        {"exposed_ns": seen.alone_ns / SAVED_SHARE, "step_ns": seen.step_ns},
    )
    yield from untold(seen)


RULE = Rule(
    code="RL-N05",
    claims=ClaimOrder.GRADIENT_TRANSFER,
    numerics=Numerics.LOWER_PRECISION,
    grade=Grade.DOCUMENTED,
    look_at_job=look_at_job,
    explain=explain,
    least_share=LEAST_SHARE * SAVED_SHARE,
    applies_to_plans=True,
)
