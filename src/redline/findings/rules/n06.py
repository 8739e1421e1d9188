"""RL-N06: the forward pass waits for parameters to be gathered."""

from collections.abc import Iterator

from redline.analysis.job.combine import Diagnosis
from redline.analysis.rank.passes import FORWARD
from redline.findings.evidence import Evidence, Grade, Numerics
from redline.findings.exposed import begun_in_steps, matter, transfer_of, untold, untold_share
from redline.findings.rule import JobLook, Rule, Seen
from redline.findings.sharding import parameter_gathers

LEAST_SHARE = 0.03  # of the step


def look_at_job(diagnosis: Diagnosis) -> JobLook | None:
    chosen = [parameter_gathers(rank) & (rank.exchanges.backward == FORWARD) for rank in diagnosis.ranks]
    if not matter(diagnosis, chosen, LEAST_SHARE):
        return None
    gathers = sum(begun_in_steps(*one).sum() for one in zip(diagnosis.ranks, chosen, strict=True))
    figures = {"gathers": float(gathers), "untold_share": untold_share(diagnosis)}
    return JobLook(claims=transfer_of(diagnosis, chosen), figures=figures)


def explain(seen: Seen) -> Iterator[Evidence]:
    yield Evidence(
        "{gathers:,} all-gathers of parameters in the forward pass of a step are exposed for {exposed_ns} of "
        "{step_ns}: they begin too late to be hidden.",
        {"gathers": round(seen.per_step("gathers")), "exposed_ns": seen.alone_ns, "step_ns": seen.step_ns},
    )
    yield from untold(seen)


RULE = Rule(
    code="RL-N06",
    numerics=Numerics.BITWISE,
    grade=Grade.MEASURED,
    look_at_job=look_at_job,
    explain=explain,
    least_share=LEAST_SHARE,
)
