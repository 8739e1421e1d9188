"""RL-H07: the optimizer updates one parameter after the other, with kernels or operators of its own for each."""

from collections.abc import Iterator

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.fixes import optimizer_fix
from redline.findings.optimizer_work import cost, optimizer_steps
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.trace import schema

MANY_KERNELS = 40  # or operators, to a call: lists of tensors take about ten, whatever their number


def match(analysis: RankAnalysis) -> RuleMatch | None:
    steps = optimizer_steps(analysis)
    if steps is None or "fused" in steps.name.lower():  # those of libraries run no operators of torch
        return None
    timeline = analysis.timeline
    if analysis.on_gpu:
        single, of_lists = steps.kernels, matching(timeline, steps.kernels, schema.is_multi_tensor)
    else:
        single = steps.outer[matching(timeline, steps.outer, schema.is_elementwise_update)]
        of_lists = matching(timeline, steps.outer, schema.is_foreach_or_fused)
    if len(single) < MANY_KERNELS * steps.calls or of_lists.any():
        return None
    figures = {
        "kernels": float(len(steps.kernels)),
        "operators": 0.0 if analysis.on_gpu else float(len(single)),
        "calls": float(steps.calls),
        "host_ns": float(steps.time.length_ns),
    }
    return RuleMatch(claim=cost(analysis, steps), figures=figures, names={"optimizer": steps.name})


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    calls = max(totals.figures["calls"], 1)
    if totals.figures["operators"]:
        yield Evidence(
            "{optimizer} runs {operators:,} operators per call, each on a single parameter, and takes {host_ns} of "
            "each {step_ns} step.",
            {
                "optimizer": totals.names["optimizer"],
                "operators": round(totals.figures["operators"] / calls),
                "host_ns": totals.per_step("host_ns"),
                "step_ns": totals.step_ns,
            },
        )
        return
    yield Evidence(
        "{optimizer} launches {kernels:,} kernels per call, each for a single parameter, and takes "
        "{host_ns} of host time per step; the device loses up to {lost_ns}.",
        {
            "optimizer": totals.names["optimizer"],
            "kernels": round(totals.figures["kernels"] / calls),
            "host_ns": totals.per_step("host_ns"),
            "lost_ns": totals.alone_ns,
        },
    )


RULE = Rule(
    code="RL-H07",
    claims=ClaimOrder.AVOIDABLE_KERNELS,
    numerics=Numerics.REASSOCIATION,
    grade=Grade.MEASURED,
    match=match,
    explain=explain,
    fix=optimizer_fix,
    figures=("kernels", "operators", "calls", "host_ns"),
    names=("optimizer",),
)
