"""RL-H23: inference records a graph for gradients that nobody asks for."""

from collections.abc import Iterator

import numpy as np

from redline.findings.autograd_nodes import (
    largest_elements,
    number_of_nodes,
    recording_operators,
    time_before_work,
)
from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.fixes import is_training
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64

LEAST_STEPS = 2  # of one alone the backward pass may just not have been recorded
NODE_NS = 5_000  # recording a node and what it saves takes the host 1 to 2 us
FRESH_NS_PER_BYTE = 0.25  # a page of 4 KiB that is used for the first time, and given back, costs up to about 1 us
ELEMENT_BYTES = 4


def match(analysis: RankAnalysis) -> RuleMatch | None:
    """Steps in which operators record nodes, and none of which has a backward pass or an optimizer."""
    modes = analysis.timeline.evidence.facts.modes
    if modes is not None and (modes.training or not modes.grad_enabled):
        return None
    if len(analysis.ledger.start_ns) < LEAST_STEPS or len(analysis.passes.backward) or is_training(analysis):
        return None
    rows = recording_operators(analysis)
    if not len(rows):
        return None
    claim = analysis.idle_after(time_before_work(analysis, rows, NODE_NS))
    if not analysis.on_gpu:  # whose allocator has memory at hand
        claim |= _in_fresh_memory(analysis, rows)
    figures = {"nodes": float(number_of_nodes(analysis, rows)), "is_told": float(modes is not None)}
    return RuleMatch(claim=claim, figures=figures)


def _in_fresh_memory(analysis: RankAnalysis, rows: I64) -> Intervals:
    """The end of each operator that keeps its result, as far as it can have been spent on getting memory.

    Without the graph, memory that was just freed is used again.
    """
    spans = analysis.timeline.spans
    fresh_ns = (largest_elements(analysis, rows) * ELEMENT_BYTES * FRESH_NS_PER_BYTE).astype(np.int64)
    end_ns = spans.end_ns[rows]
    return Intervals.union_of(np.maximum(end_ns - fresh_ns, spans.start_ns[rows]), end_ns)


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "Every step records {nodes:,} nodes of a graph for gradients, and no backward pass follows: gradient mode is "
        "on in inference.",
        {"nodes": round(totals.per_step("nodes"))},
    )
    yield Evidence(
        "The graph also keeps every activation in memory until the output is freed, so that each step takes fresh "
        "memory."
    )
    if not totals.figures["is_told"]:
        yield Evidence("A backward pass outside of the recorded steps would explain it too.")


def fix(totals: MatchTotals) -> Evidence:
    return Evidence("Call the model in inference mode: with torch.inference_mode(): outputs = model(inputs)")


RULE = Rule(
    code="RL-H23",
    claims=ClaimOrder.MOMENTS,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    fix=fix,
    figures=("nodes", "is_told"),
    least_share=0.0,
)
