"""RL-N06: the forward pass waits for parameters to be gathered."""

from collections.abc import Iterator

from redline.analysis.job.combine import Diagnosis
from redline.analysis.rank.passes import FORWARD
from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade, Numerics
from redline.findings.exposed import untold
from redline.findings.rule import JobLook, Rule, Seen
from redline.findings.sharding import exposed_gathers, parameter_gathers

LEAST_SHARE = 0.03  # of the step


def look_at_job(diagnosis: Diagnosis) -> JobLook | None:
    chosen = [parameter_gathers(rank) & (rank.exchanges.backward == FORWARD) for rank in diagnosis.ranks]
    return exposed_gathers(diagnosis, chosen, LEAST_SHARE)


def explain(seen: Seen) -> Iterator[Evidence]:
    yield Evidence(
        "{gathers:,} all-gathers of parameters in the forward pass of a step are exposed for {exposed_ns} of "
        "{step_ns}: they begin too late to be hidden.",
        {"gathers": round(seen.per_step("gathers")), "exposed_ns": seen.alone_ns, "step_ns": seen.step_ns},
    )
    yield from untold(seen)


RULE = Rule(
    code="RL-N06",
    claims=ClaimOrder.TRANSFER,
    numerics=Numerics.BITWISE,
    grade=Grade.MEASURED,
    look_at_job=look_at_job,
    explain=explain,
    least_share=LEAST_SHARE,
    applies_to_plans=True,
)
