"""RL-H08: the optimizer works on lists of tensors but reads a counter of every parameter in Python."""

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

MANY_READS = 20  # to a call
LEAST_SHARE = 0.01  # of the steps


def match(analysis: RankAnalysis) -> RuleMatch | None:
    """The numbers are on the host: what they cost is Python, and no wait for the device."""
    steps = optimizer_steps(analysis)
    if steps is None:
        return None
    operators = steps.operators
    if matching(analysis.timeline, steps.outer, schema.is_fused).any():  # it takes the counters as they are
        return None
    reads = int(matching(analysis.timeline, operators, schema.is_item).sum())
    if reads < MANY_READS * steps.calls or not matching(analysis.timeline, operators, schema.is_foreach).any():
        return None
    idle = analysis.idle_after(steps.time) & analysis.in_steps
    if idle.length_ns < LEAST_SHARE * analysis.steps_ns:
        return None
    figures = {
        "reads": float(reads),
        "calls": float(steps.calls),
        "host_ns": float(steps.time.length_ns),
        "idle_ns": float(idle.length_ns),
    }
    return RuleMatch(claim=cost(analysis, steps), figures=figures, names={"optimizer": steps.name})


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "{optimizer} reads {reads:,} CPU scalars one by one in each call, which takes {host_ns} of host "
        "time per step; the device is idle for {idle_ns} because of it.",
        {
            "optimizer": totals.names["optimizer"],
            "reads": round(totals.figures["reads"] / max(totals.figures["calls"], 1)),
            "host_ns": totals.per_step("host_ns"),
            "idle_ns": totals.per_step("idle_ns"),
        },
    )


RULE = Rule(
    code="RL-H08",
    claims=ClaimOrder.AVOIDABLE_KERNELS,
    numerics=Numerics.REASSOCIATION,
    grade=Grade.MEASURED,
    match=match,
    explain=explain,
    fix=optimizer_fix,
    figures=("reads", "calls", "host_ns", "idle_ns"),
    names=("optimizer",),
    least_share=LEAST_SHARE,
)
