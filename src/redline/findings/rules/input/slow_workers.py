"""RL-D02: the worker processes of the data loader do not keep up."""

from collections.abc import Iterator

from redline.analysis.rank.rank_analysis import RankAnalysis
from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade, Numerics
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.findings.rules.input.no_workers import WAITING_SHARE, loading
from redline.trace import schema


def match(analysis: RankAnalysis) -> RuleMatch | None:
    return loading(analysis, schema.is_loader_with_workers)


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "The training process waits {loading_ns} of each {step_ns} step for its data-loader workers; the "
        "device is idle for {waiting_ns} of that.",
        {
            "loading_ns": totals.per_step("loading_ns"),
            "step_ns": totals.step_ns,
            "waiting_ns": totals.per_step("waiting_ns"),
        },
    )


RULE = Rule(
    code="RL-D02",
    claims=ClaimOrder.MOMENTS,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    figures=("loading_ns", "waiting_ns"),
    least_share=WAITING_SHARE,
)
