"""RL-B07: gradients are filled with zeros and added to, instead of being dropped and written."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.optimizer_work import launched_during
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.ledger.rank.activity import Mask
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import NONE, Kind
from redline.trace import schema

LEAST_SHARE = 0.02  # of the step


def match(analysis: RankAnalysis) -> RuleMatch | None:
    """Zeroing in `zero_grad`, and what the next backward pass adds to zeros: later passes add to gradients."""
    spans = analysis.timeline.spans
    regions = analysis.rows_named(schema.is_zero_grad, Kind.ANNOTATION)
    during = Intervals.union_of(spans.start_ns[regions], spans.end_ns[regions])
    zeros = analysis.rows_named(schema.zeroes, Kind.OPERATOR)
    zeros = zeros[during.contains(spans.start_ns[zeros])]
    if not len(zeros):
        return None
    added = _added_to_zeros(analysis, spans.start_ns[zeros])
    if not len(added):
        return None
    rows = np.sort(np.concatenate([zeros, added]))
    time = Intervals.union_of(spans.start_ns[rows], spans.end_ns[rows])
    zeroing = Intervals.union_of(spans.start_ns[zeros], spans.end_ns[zeros])
    figures = {
        "zeroing_ns": float(zeroing.length_ns),
        "adding_ns": float(time.length_ns - zeroing.length_ns),
        "gradients": float(len(added)),
    }
    if not analysis.on_gpu:  # zeros push other data out of the caches; reading it again takes at most as long
        time |= Intervals.union_of(zeroing.end, 2 * zeroing.end - zeroing.start)
    kernels = launched_during(analysis, time)
    return RuleMatch(claim=analysis.busy_with(kernels) | analysis.idle_after(time), figures=figures)


def _added_to_zeros(analysis: RankAnalysis, zeroed_ns: I64) -> I64:
    """Nodes that add to a gradient, in the first backward pass after each zeroing."""
    spans, passes = analysis.timeline.spans, analysis.passes.backward
    first = np.unique(np.searchsorted(passes.start, zeroed_ns))
    first = first[first < len(passes)]
    nodes = analysis.rows_named(schema.accumulates_gradient, Kind.OPERATOR)
    nodes = nodes[Intervals.union_of(passes.start[first], passes.end[first]).contains(spans.start_ns[nodes])]
    return nodes[_adds(analysis, nodes)]


def _adds(analysis: RankAnalysis, nodes: I64) -> Mask:
    """Whether an `add_` runs inside each node."""
    spans = analysis.timeline.spans
    rows = analysis.rows_named(schema.is_add_in_place, Kind.OPERATOR)
    around = spans.parent[rows]
    for _ in range(2):  # the node, or what it calls
        around = np.where(
            (around != NONE) & ~matching(analysis.timeline, around, schema.accumulates_gradient),
            spans.parent[around],
            around,
        )
    adds: Mask = np.isin(nodes, around)
    return adds


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "zero_grad writes zeros into gradients for {zeroing_ns} of each {step_ns} step, and the backward pass then "
        "adds to {gradients:,} of them instead of writing them, for {adding_ns}.",
        {
            "zeroing_ns": totals.per_step("zeroing_ns"),
            "adding_ns": totals.per_step("adding_ns"),
            "gradients": round(totals.per_step("gradients")),
            "step_ns": totals.step_ns,
        },
    )


RULE = Rule(
    code="RL-B07",
    claims=ClaimOrder.AVOIDABLE_KERNELS,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    figures=("zeroing_ns", "adding_ns", "gradients"),
    least_share=LEAST_SHARE,
)
