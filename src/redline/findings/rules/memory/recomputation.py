"""RL-C13: activation checkpointing runs the forward pass again inside the backward pass."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.operator_cost import argument_texts, cost_of, operators_in_steps, outermost
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.findings.rules.kernels.small_batch import headroom_of
from redline.ledger.rank.distinct import distinct
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.ledger.rank.ratings import recomputed
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.nesting import nearest_of
from redline.timeline.table import I64
from redline.trace import schema

STEP_SHARE = 0.05  # of the step: below this memory is cheap at the price
KNOWN_SHARE = 0.5  # of their time: calls that the forward pass made too; gradients of gradients are numbered as well
HEADROOM = 0.15  # of the device's memory: with less to spare, recomputing is why the job fits


def match(analysis: RankAnalysis) -> RuleMatch | None:
    rows = operators_in_steps(analysis)
    again = outermost(analysis, rows[recomputed(analysis.timeline, rows)])
    headroom = headroom_of(analysis)
    if not len(again) or (headroom is not None and headroom <= HEADROOM) or not _repeats_forward(analysis, rows, again):
        return None
    repeated = cost_of(analysis, again) if analysis.on_gpu else _stretches(analysis, again)
    figures = {
        "operators": float(len(again)),
        "recomputed_ns": float(repeated.length_ns),
        "free": headroom or 0.0,
        "told": float(headroom is not None),
    }
    hooks = Intervals.empty() if analysis.on_gpu else analysis.python_in_passes  # pack and unpack every saved tensor
    return RuleMatch(claim=repeated | hooks, figures=figures)


def _repeats_forward(analysis: RankAnalysis, rows: I64, again: I64) -> bool:
    """Whether they compute layers, and most of them were called with the same shapes in the forward pass.

    DTensor converts gradients with operators that autograd numbers too.
    """
    spans = analysis.timeline.spans
    if not matching(analysis.timeline, rows[recomputed(analysis.timeline, rows)], schema.is_layer_operator).any():
        return False
    shapes, _, _ = argument_texts(analysis.timeline, rows)
    _, call = distinct(spans.name[rows], shapes)
    is_again = np.isin(rows, again)
    forward = Counter(call[~is_again & (analysis.passes.at(spans.start_ns[rows]) == 0)].tolist())
    known = np.array([number in forward for number in call[is_again].tolist()])
    dur_ns = spans.dur_ns[rows[is_again]]
    return bool(dur_ns[known].sum() >= KNOWN_SHARE * dur_ns.sum())


def _stretches(analysis: RankAnalysis, again: I64) -> Intervals:
    """From the begin of each node of the backward pass to its last recomputed operator, with Python between them."""
    timeline, spans = analysis.timeline, analysis.timeline.spans
    backward = np.zeros(len(spans), bool)
    backward[timeline.operators.row] = timeline.operators.forward_thread > 0
    node = nearest_of(backward, spans.parent, again)
    nodes, which = np.unique(node, return_inverse=True)
    end_ns = np.zeros(len(nodes), np.int64)
    np.maximum.at(end_ns, which, spans.end_ns[again])
    return Intervals.union_of(spans.start_ns[nodes], end_ns)


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "{operators:,} forward operators per step run again inside the backward pass; they take {recomputed_ns} of "
        "each {step_ns} step.",
        {
            "operators": round(totals.per_step("operators")),
            "recomputed_ns": totals.per_step("recomputed_ns"),
            "step_ns": totals.step_ns,
        },
    )
    if totals.figures["told"]:
        free_share = totals.figures["free"] / max(totals.figures["told"], 1)
        yield Evidence("{free_share} of the device memory was never reserved.", {"free_share": free_share})
    else:
        yield Evidence("Keeping activations takes memory, and free memory was not recorded: check it first.")


RULE = Rule(
    code="RL-C13",
    claims=ClaimOrder.AVOIDABLE_KERNELS,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    figures=("operators", "recomputed_ns", "told", "free"),
    least_share=STEP_SHARE,
)
