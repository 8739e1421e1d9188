"""RL-C12: the program copies tensors as they are, with clone, to or contiguous, before it uses them."""

from collections.abc import Iterator

import numpy as np

from redline.findings.callers import caller_of, site_of
from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.operator_cost import backward_of, cost_of, read_again
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.findings.tensor_copies import plain_copies
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics

LEAST_SHARE = 0.03  # of the step: some copies are needed, and a few cost little


def match(analysis: RankAnalysis) -> RuleMatch | None:
    rows = plain_copies(analysis)
    if not len(rows):
        return None
    copying = cost_of(analysis, rows)
    figures = {"copies": float(len(rows)), "copying_ns": float(copying.length_ns)}
    names = caller_of(analysis, rows, analysis.timeline.spans.dur_ns[rows])
    claim = copying | read_again(analysis, rows) | cost_of(analysis, np.unique(backward_of(analysis, rows)))
    return RuleMatch(claim=claim, figures=figures, names=names)


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "{copies:,} calls per step, most of them {operator}, copy a tensor without changing its type or layout; they "
        "take {copying_ns} of each {step_ns} step.",
        {
            "copies": round(totals.per_step("copies")),
            "operator": totals.names["operator"],
            "copying_ns": totals.per_step("copying_ns"),
            "step_ns": totals.step_ns,
        },
    )
    yield from site_of(totals)


RULE = Rule(
    code="RL-C12",
    claims=ClaimOrder.AVOIDABLE_KERNELS,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    figures=("copies", "copying_ns"),
    names=("operator", "site"),
    least_share=LEAST_SHARE,
)
