"""RL-C17: a CPU spends the step on calling thousands of tiny operators, not on computing."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.findings.savings import work_that_stays
from redline.ledger.accounts import Account
from redline.ledger.rank.host_phases import Phase
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64

MANY_OPERATORS = 1000  # to a step: calling fewer takes a few milliseconds
TINY_SHARE = 0.5  # of the steps without pauses, between and in tiny operators: more than computing takes
LONGEST_CALL_NS = 50_000  # of an operator with its gradient; where more lies between operators, Python does other work
SMALL_NS = 200_000  # a fused or batched call may replace these too
LEAST_SHARE = 0.25  # of the step: operators that compute for less than calling takes are half of TINY_SHARE at most


def match(analysis: RankAnalysis) -> RuleMatch | None:
    """On a GPU the same cause is RL-H01 or RL-H02; optimizers and loops between steps have rules of their own."""
    if analysis.on_gpu or not len(analysis.ledger.start_ns):
        return None
    elsewhere = _elsewhere(analysis)
    rows, own_ns = _own_time(analysis, elsewhere)
    between = analysis.launch_gaps - elsewhere
    call_ns = between.length_ns / max(len(rows), 1)
    tiny = own_ns < min(call_ns, LONGEST_CALL_NS)
    is_many = tiny.sum() >= MANY_OPERATORS * len(analysis.ledger.start_ns)
    running_ns = analysis.steps_ns - analysis.pauses.length_ns
    if not is_many or between.length_ns + own_ns[tiny].sum() < TINY_SHARE * running_ns:
        return None
    figures = {
        "operators": float(len(rows)),
        "tiny": float(tiny.sum()),
        "calling_ns": float(between.length_ns),
        "computing_ns": float(own_ns[tiny].sum()),
    }
    claim = analysis.in_steps - elsewhere - analysis.idle_in(Account.INPUT) - analysis.pauses
    claim -= work_that_stays(analysis)
    return RuleMatch(claim=claim - analysis.busy_with(rows[own_ns >= SMALL_NS]), figures=figures)


def _elsewhere(analysis: RankAnalysis) -> Intervals:
    """Time of optimizers, and of what a training loop does between its steps."""
    optimizer = analysis.passes.optimizer
    return optimizer | analysis.phases.time(Phase.BETWEEN) if len(analysis.passes.backward) else optimizer


def _own_time(analysis: RankAnalysis, elsewhere: Intervals) -> tuple[I64, I64]:
    """Operators that compute or copy in steps, but not elsewhere, and how long each does so itself."""
    owned = (analysis.activity.compute, analysis.activity.copies)
    row, dur_ns = (
        np.concatenate([getattr(pieces, name) for pieces in owned]).astype(np.int64) for name in ("row", "dur_ns")
    )
    start_ns = analysis.timeline.spans.start_ns[row]
    chosen = analysis.in_steps.contains(start_ns) & ~elsewhere.contains(start_ns)
    rows, which = np.unique(row[chosen], return_inverse=True)
    own_ns = np.zeros(len(rows), np.int64)
    np.add.at(own_ns, which, dur_ns[chosen])
    return rows, own_ns


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "{tiny:,} of {operators:,} operators per step compute for less than calling one takes ({call_ns}): "
        "{computing_ns} together, and calling them takes another {calling_ns} of each {step_ns} step.",
        {
            "call_ns": totals.figures["calling_ns"] / max(totals.figures["operators"], 1),
            "tiny": round(totals.per_step("tiny")),
            "operators": round(totals.per_step("operators")),
            "computing_ns": totals.per_step("computing_ns"),
            "calling_ns": totals.per_step("calling_ns"),
            "step_ns": totals.step_ns,
        },
    )


RULE = Rule(
    code="RL-C17",
    claims=ClaimOrder.LAUNCHES,
    numerics=Numerics.REASSOCIATION,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    figures=("operators", "tiny", "calling_ns", "computing_ns"),
    least_share=LEAST_SHARE,
)
