"""RL-R08, a remark: a fix that was found changes the numbers, so its result is to be compared."""

from collections.abc import Iterator, Sequence

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.finding import Finding
from redline.findings.rule import JobMatch, MatchTotals, Rule
from redline.numerics import Numerics

CHANGING = (Numerics.LOWER_PRECISION, Numerics.SEMANTICS)


def match_findings(findings: Sequence[Finding]) -> JobMatch | None:
    codes = sorted(finding.code for finding in findings if finding.numerics in CHANGING)
    return JobMatch(names={"codes": ", ".join(codes)}) if codes else None


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "Fixes that change what is computed: {codes}. Compare the loss with that of the unchanged job before you keep "
        "one.",
        {"codes": totals.names["codes"]},
    )


RULE = Rule(
    code="RL-R08",
    claims=ClaimOrder.NOTHING,
    numerics=Numerics.BITWISE,
    grade=Grade.MEASURED,
    match_findings=match_findings,
    explain=explain,
    applies_to_plans=True,
)
