"""RL-D01: batches are loaded in the training process itself."""

from collections.abc import Callable, Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.fixes import loader_fix, loader_names
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.findings.what_if import loading_gone
from redline.ledger.accounts import Account
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.timeline import Kind
from redline.trace import schema

WAITING_SHARE = 0.03  # of the step
IDLE_SHARE = 0.5  # of the time in the loader
NAMES = ("use", "target", "dataset", "workers", "free")


def match(analysis: RankAnalysis) -> RuleMatch | None:
    return loading(analysis, schema.is_loader_in_process)


def loading(analysis: RankAnalysis, is_meant: Callable[[str], bool]) -> RuleMatch | None:
    """All of the time in the loader: while the host loads, it launches nothing for later either.

    Of a GPU that mostly computes on meanwhile only what it is idle: its queue was long enough.
    """
    spans = analysis.timeline.spans
    rows = analysis.rows_named(is_meant, Kind.ANNOTATION)
    time = Intervals.union_of(spans.start_ns[rows], spans.end_ns[rows]) & analysis.in_steps
    waiting_ns = int(np.sum(analysis.idle.accounts[Account.INPUT].overlap_with(time.start, time.end)))
    if waiting_ns <= WAITING_SHARE * analysis.steps_ns:
        return None
    figures = {"loading_ns": float(time.length_ns), "waiting_ns": float(waiting_ns)}
    claim = time if waiting_ns >= IDLE_SHARE * time.length_ns else time - analysis.activity.busy
    return RuleMatch(claim=claim, figures=figures, names=loader_names(analysis))


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    values = loading_values(totals)
    if totals.names["use"] == "training":
        yield Evidence(
            "The training process itself loads each batch, {loading_ns} of each {step_ns} step; the device "
            "is idle for {waiting_ns} of that.",
            values,
        )
    else:
        yield Evidence(
            "The process that runs the model loads each batch itself, {loading_ns} of each {step_ns} step; the device "
            "is idle for {waiting_ns} of that.",
            values,
        )


def loading_values(totals: MatchTotals) -> dict[str, float]:
    return {
        "loading_ns": totals.per_step("loading_ns"),
        "step_ns": totals.step_ns,
        "waiting_ns": totals.per_step("waiting_ns"),
    }


RULE = Rule(
    code="RL-D01",
    claims=ClaimOrder.MOMENTS,
    numerics=Numerics.BITWISE,
    grade=Grade.MEASURED,
    match=match,
    explain=explain,
    what_if=loading_gone,
    fix=loader_fix,
    figures=("loading_ns", "waiting_ns"),
    names=NAMES,
    least_share=WAITING_SHARE,
)
