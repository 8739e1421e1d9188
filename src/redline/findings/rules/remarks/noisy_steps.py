"""RL-R07, a remark: too few steps, or too different ones, to tell a change from noise."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Bearing, Evidence, Grade
from redline.findings.rule import JobMatch, MatchTotals, Rule
from redline.findings.usual_steps import is_usual
from redline.ledger.job.combine import Diagnosis
from redline.numerics import Numerics

FEWEST_STEPS = 3
SPREAD = 0.1  # standard deviation of steps of usual length, as a share of their mean


def match_job(diagnosis: Diagnosis) -> JobMatch | None:
    lengths_ns = [rank.ledger.end_ns - rank.ledger.start_ns for rank in diagnosis.ranks]
    steps = min(map(len, lengths_ns))
    usual_ns = [of_rank[is_usual(of_rank)] for of_rank in lengths_ns]
    spread = float(
        np.mean([of_rank.std() / of_rank.mean() for of_rank in usual_ns if len(of_rank) and of_rank.mean()] or [0.0])
    )
    if not steps or (steps >= FEWEST_STEPS and spread <= SPREAD):
        return None
    return JobMatch(figures={"steps": float(steps), "spread": spread})


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    steps, spread = totals.figures["steps"], totals.figures["spread"]
    if steps < FEWEST_STEPS:
        yield Evidence(
            "Steps in the trace: {steps:,}, too few to tell a change from noise.", {"steps": steps}, Bearing.WEAKENS
        )
    else:
        yield Evidence(
            "The {steps:,} steps vary by {spread_share} (standard deviation of steps of typical length): a "
            "smaller change is within the noise.",
            {"steps": steps, "spread_share": spread},
            Bearing.WEAKENS,
        )


RULE = Rule(
    code="RL-R07",
    claims=ClaimOrder.NOTHING,
    numerics=Numerics.BITWISE,
    grade=Grade.MEASURED,
    match_job=match_job,
    explain=explain,
)
