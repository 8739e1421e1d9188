"""RL-ID03: a serving engine leaves the device idle between its steps, while requests wait for their next token."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.ledger.rank.step_borders import engine_gaps
from redline.numerics import Numerics
from redline.trace.steps import ENGINE_ANCHOR

LEAST_SHARE = 0.05  # of the steps
LEAST_GAP_NS = 200_000  # to read the tokens, fill the inputs of the next step and launch it: about a hundred calls


def match(analysis: RankAnalysis) -> RuleMatch | None:
    """Only where the next step goes on with requests that were there: then there is nothing that the engine waits
    for."""
    if not analysis.on_gpu or analysis.timeline.step_anchor != ENGINE_ANCHOR:
        return None
    idle = engine_gaps(analysis.timeline) & analysis.activity.idle & analysis.in_steps
    if idle.length_ns < LEAST_SHARE * analysis.steps_ns:
        return None
    ended = np.count_nonzero(idle.overlap_with(analysis.ledger.start_ns, analysis.ledger.end_ns))
    if idle.length_ns < LEAST_GAP_NS * ended:
        return None
    return RuleMatch(claim=idle, figures={"gaps": float(ended), "idle_ns": float(idle.length_ns)})


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    figures = totals.figures
    yield Evidence(
        "Between two steps of the engine the device is idle for {gap_ns} on average, {gaps:,} x in {steps:,} steps: "
        "{idle_ns} of each {step_ns} step. The host schedules, samples and detokenises meanwhile, though requests are "
        "waiting for their next token.",
        {
            "gap_ns": figures["idle_ns"] / max(figures["gaps"], 1),
            "gaps": figures["gaps"],
            "steps": totals.steps,
            "idle_ns": totals.per_step("idle_ns"),
            "step_ns": totals.step_ns,
        },
    )


RULE = Rule(
    code="RL-ID03",
    claims=ClaimOrder.ENGINE_GAPS,
    numerics=Numerics.BITWISE,
    grade=Grade.MEASURED,
    match=match,
    explain=explain,
    figures=("gaps", "idle_ns"),
    least_share=LEAST_SHARE,
)
