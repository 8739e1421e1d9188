"""RL-N07: parameters that the forward pass had gathered are gathered again in the backward pass."""

from collections.abc import Iterator

from redline.analysis.job.combine import Diagnosis
from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade, Numerics
from redline.findings.exposed import untold
from redline.findings.rule import JobLook, Rule, Seen
from redline.findings.sharding import exposed_gathers, gathered_again, parameter_gathers

LEAST_SHARE = 0.03  # of the step


def look_at_job(diagnosis: Diagnosis) -> JobLook | None:
    chosen = [gathered_again(rank, parameter_gathers(rank)) for rank in diagnosis.ranks]
    return exposed_gathers(diagnosis, chosen, LEAST_SHARE)


def explain(seen: Seen) -> Iterator[Evidence]:
    yield Evidence(
        "{gathers:,} all-gathers in the backward pass of a step fetch parameters that the forward pass had; they are "
        "exposed for {exposed_ns} of {step_ns}.",
        {"gathers": round(seen.per_step("gathers")), "exposed_ns": seen.alone_ns, "step_ns": seen.step_ns},
    )
    yield from untold(seen)


RULE = Rule(
    code="RL-N07",
    claims=ClaimOrder.REPEATED_GATHERS,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    look_at_job=look_at_job,
    explain=explain,
    least_share=LEAST_SHARE,
    applies_to_plans=True,
)
