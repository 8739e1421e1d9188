"""RL-R08, a remark: a fix that was found changes the numbers, so its result is to be compared."""

from collections.abc import Iterator, Sequence

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade, Numerics
from redline.findings.finding import Finding
from redline.findings.rule import JobLook, Rule, Seen

CHANGING = (Numerics.LOWER_PRECISION, Numerics.SEMANTICS)


def look_at_findings(findings: Sequence[Finding]) -> JobLook | None:
    codes = sorted(one.code for one in findings if one.numerics in CHANGING)
    return JobLook(names={"codes": ", ".join(codes)}) if codes else None


def explain(seen: Seen) -> Iterator[Evidence]:
    yield Evidence(
        "Fixes that change what is computed: {codes}. Compare the loss with that of the unchanged job before you keep "
        "one.",
        {"codes": seen.names["codes"]},
    )


RULE = Rule(
    code="RL-R08",
    claims=ClaimOrder.NOTHING,
    numerics=Numerics.BITWISE,
    grade=Grade.MEASURED,
    look_at_findings=look_at_findings,
    explain=explain,
    applies_to_plans=True,
)
