"""RL-D02: the worker processes of the data loader do not keep up."""

from collections.abc import Iterator

from redline.analysis.rank.rank_analysis import RankAnalysis
from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade, Numerics
from redline.findings.fixes import loader_fix
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.findings.rules.input.no_workers import NAMES, WAITING_SHARE, loading, loading_values
from redline.trace import schema


def match(analysis: RankAnalysis) -> RuleMatch | None:
    return loading(analysis, schema.is_loader_with_workers)


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    values = loading_values(totals)
    if totals.names["use"] == "training":
        yield Evidence(
            "The training process waits {loading_ns} of each {step_ns} step for its data-loader workers; the "
            "device is idle for {waiting_ns} of that.",
            values,
        )
    else:
        yield Evidence(
            "The process that runs the model waits {loading_ns} of each {step_ns} step for its data-loader workers; "
            "the device is idle for {waiting_ns} of that.",
            values,
        )


RULE = Rule(
    code="RL-D02",
    claims=ClaimOrder.MOMENTS,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    fix=loader_fix,
    figures=("loading_ns", "waiting_ns"),
    names=NAMES,
    least_share=WAITING_SHARE,
)
