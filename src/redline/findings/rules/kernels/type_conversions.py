"""RL-C25: the program converts tensors to another floating-point type, and back."""

from collections.abc import Iterator

import numpy as np

from redline.findings.callers import caller_of, site_of
from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.operator_cost import backward_of, cost_of, read_again
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.findings.tensor_copies import type_round_trips
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics

LEAST_SHARE = 0.1  # of the step: norms of language models are computed in fp32 on purpose, and cost half of that


def match(analysis: RankAnalysis) -> RuleMatch | None:
    rows = type_round_trips(analysis)
    if not len(rows):
        return None
    claim = cost_of(analysis, rows) | cost_of(analysis, np.unique(backward_of(analysis, rows)))
    return RuleMatch(
        claim=claim | read_again(analysis, rows),
        figures={"conversions": float(len(rows)), "converting_ns": float(claim.length_ns)},
        names=caller_of(analysis, rows, analysis.timeline.spans.dur_ns[rows]),
    )


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "{conversions:,} calls per step convert tensors to another floating-point type, and as often back: with their "
        "backward nodes they take {converting_ns} of each {step_ns} step.",
        {
            "conversions": round(totals.per_step("conversions")),
            "converting_ns": totals.per_step("converting_ns"),
            "step_ns": totals.step_ns,
        },
    )
    yield from site_of(totals)


RULE = Rule(
    code="RL-C25",
    claims=ClaimOrder.AVOIDABLE_KERNELS,
    numerics=Numerics.LOWER_PRECISION,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    figures=("conversions", "converting_ns"),
    names=("operator", "site"),
    least_share=LEAST_SHARE,
)
