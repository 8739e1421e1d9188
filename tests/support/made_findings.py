"""Findings as tests of reports need them: made up, one of each kind."""

from dataclasses import replace

from redline.findings.evidence import Evidence, Grade
from redline.findings.finding import ClaimedTime, Finding, Findings, Limit, Verdict
from redline.numerics import Numerics

FINDING = Finding(
    code="RL-H01",
    numerics=Numerics.BITWISE,
    grade=Grade.MEASURED,
    step_ns=10e6,
    bound_ns=4e6,
    alone_ns=4e6,
    steady_share=0.4,
    accounts={"host": 3e6, "queue": 1e6},
    ranks=1,
    places=(ClaimedTime(rank=0, start_ns=10, end_ns=20),),
    evidence=(
        Evidence("The device waits {waiting_ns} for {name}.", {"waiting_ns": 4e6, "name": "a|b"}),
        Evidence("Second."),
        Evidence("Third."),
    ),
)
REMARK = replace(
    FINDING, bound_ns=0.0, alone_ns=0.0, steady_share=0.0, accounts={}, evidence=(Evidence("Look first."),)
)
VERDICT = Verdict(
    limit=Limit.OVERHEAD,
    limit_share=0.5,
    kernel_share=0.4,
    judged_idle_share=0.4,
    copy_share=0.1,
    exposed_share=0.1,
    idle_share=0.4,
    unjudged_share=0.0,
    math_share=0.2,
    rated_share=0.9,
    roof_share=0.5,
    worthwhile=True,
    healthy=False,
    first="RL-H01",
    phases={},
)


def findings(count: int = 1) -> Findings:
    """So many, with praise and a remark."""
    smaller = (replace(FINDING, bound_ns=4e6 / number) for number in range(1, count + 1))
    praise = (Evidence("Well done: {busy_share} busy.", {"busy_share": 0.99}),)
    return Findings(verdict=VERDICT, findings=tuple(smaller), remarks=(REMARK,), praise=praise)
