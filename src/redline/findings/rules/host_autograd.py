"""Modes of autograd that were left on: anomaly detection, deterministic fills, graphs in inference."""

from math import prod

import numpy as np

from redline.findings.evidence import Evidence, Grade
from redline.findings.fixes import is_training
from redline.findings.operator_cost import launched_by
from redline.findings.rule import ClaimOrder, MatchTotals, RuleMatch, alone, rule, says
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.roofline.sizes import shapes_of
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import NONE, Kind
from redline.trace import schema

_MOST_ELEMENTS = 1 << 40  # more than any tensor has: a damaged shape


def recording_operators(analysis: RankAnalysis) -> I64:
    """Rows of operators inside steps that autograd has numbered; those of the backward pass are left out."""
    operators, spans = analysis.timeline.operators, analysis.timeline.spans
    rows = operators.row[(operators.sequence >= 0) & (operators.forward_thread <= 0)].astype(np.int64)
    rows = rows[analysis.in_steps.contains(spans.start_ns[rows])]
    return rows[~matching(analysis.timeline, rows, schema.is_backward_node)]


def number_of_nodes(analysis: RankAnalysis, rows: I64) -> int:
    """An operator that only calls others has the number of the first of them."""
    operators = analysis.timeline.operators
    return len(np.unique(operators.sequence[np.searchsorted(operators.row, rows)]))


def largest_elements(analysis: RankAnalysis, rows: I64) -> I64:
    """The elements of each operator's largest tensor, about as many as it makes; 0 without shapes."""
    operators, timeline = analysis.timeline.operators, analysis.timeline
    shapes = operators.shapes[np.searchsorted(operators.row, rows)]
    texts, which = np.unique(shapes, return_inverse=True)
    sizes = [_largest(timeline.text(int(text))) for text in texts]
    elements: I64 = np.array(sizes, np.int64)[which]
    return elements


def _largest(shapes: str) -> int:
    size = max((prod(shape) for shape in shapes_of(shapes)), default=0)
    return min(max(size, 0), _MOST_ELEMENTS)


def time_before_work(analysis: RankAnalysis, rows: I64, most_ns: int) -> Intervals:
    """The time of each operator before it calls another one, where nodes are made; at most so much of it."""
    spans = analysis.timeline.spans
    parents, first = np.unique(spans.parent, return_index=True)  # spans are in order of start
    first_child = np.full(len(spans) + 1, NONE, np.int64)
    first_child[parents] = first
    child = first_child[rows]
    end_ns = np.where(child != NONE, spans.start_ns[child], spans.end_ns[rows])
    start_ns = spans.start_ns[rows]
    return Intervals.union_of(start_ns, np.minimum(end_ns, start_ns + most_ns))


CHECKED_SHARE = 0.5  # of the nodes of the backward pass: anomaly detection checks what each of them returns
MANY_FILLS = 10  # to a step: allocations that are filled at once
TRACEBACK_NS = 2_000_000  # an operator that records a node formats a Python stack: tens to hundreds of microseconds


def _fix_debug_modes(totals: MatchTotals) -> Evidence:
    if totals.figures["checks"]:
        return Evidence("Switch it off after debugging: torch.autograd.set_detect_anomaly(False)")
    return Evidence(
        "Keep deterministic kernels and leave out the filling: "
        "torch.utils.deterministic.fill_uninitialized_memory = False"
    )


@rule("RL-H24", ClaimOrder.MOMENTS, Numerics.BITWISE, Grade.DOCUMENTED, fix=_fix_debug_modes)
@says(
    "Anomaly detection is on: {checks:,} operators per step look for NaN in the backward pass, and every "
    "forward operator stores a Python traceback. Together {lost_ns} of each {step_ns} step.",
    when="checks",
    lost_ns=alone,
)
@says(
    "Deterministic mode is on: {fills:,} times per step, newly allocated memory is filled before it is used.",
    when="fills",
)
def debug_modes(analysis: RankAnalysis) -> RuleMatch | None:
    """A mode for debugging was left on: anomaly detection, or filling memory for deterministic results."""
    checks, fills = _checks(analysis), _fills(analysis)
    if not len(checks) and not len(fills):
        return None
    spans = analysis.timeline.spans
    rows = np.concatenate([checks, fills])
    claim = Intervals.union_of(spans.start_ns[rows], spans.end_ns[rows])
    if len(checks):
        claim |= time_before_work(analysis, recording_operators(analysis), TRACEBACK_NS) | analysis.python_in_passes
    lost = analysis.idle_after(claim & analysis.in_steps)
    return RuleMatch(lost | analysis.busy_with(launched_by(analysis, rows)), checks=len(checks), fills=len(fills))


def _checks(analysis: RankAnalysis) -> I64:
    """Operators with which anomaly detection looks for NaN, where most nodes of the backward pass are checked."""
    spans = analysis.timeline.spans
    nodes = analysis.rows_named(schema.is_backward_engine, Kind.OPERATOR)
    checks = analysis.rows_named(schema.is_nan_check, Kind.OPERATOR)
    if not len(nodes) or not len(checks):
        return np.empty(0, np.int64)
    is_node = np.zeros(len(spans), bool)
    is_node[nodes] = True
    checks = checks[_flagged(is_node, spans.parent[checks].astype(np.int64))]
    checked = len(np.unique(spans.parent[checks]))
    return checks if checked >= CHECKED_SHARE * len(nodes) else np.empty(0, np.int64)


def _fills(analysis: RankAnalysis) -> I64:
    """Fills of memory by the operator that allocates it, which happens in deterministic mode only."""
    spans = analysis.timeline.spans
    rows = analysis.rows_named(schema.is_fill, Kind.OPERATOR)
    parent = spans.parent[rows].astype(np.int64)
    inside = (parent != NONE) & matching(analysis.timeline, parent, schema.is_empty_allocation)
    rows = rows[inside & analysis.in_steps.contains(spans.start_ns[rows])]
    return rows if len(rows) >= MANY_FILLS * max(len(analysis.ledger.start_ns), 1) else np.empty(0, np.int64)


def _flagged(flags: np.typing.NDArray[np.bool_], rows: I64) -> np.typing.NDArray[np.bool_]:
    found: np.typing.NDArray[np.bool_] = np.append(flags, False)[rows]  # NONE is the last one
    return found


LEAST_STEPS = 2  # of one alone the backward pass may just not have been recorded
NODE_NS = 5_000  # recording a node and what it saves takes the host 1 to 2 us
FRESH_NS_PER_BYTE = 0.25  # a page of 4 KiB that is used for the first time, and given back, costs up to about 1 us
ELEMENT_BYTES = 4


def _fix_gradients_in_inference(totals: MatchTotals) -> Evidence:
    return Evidence("Call the model in inference mode: with torch.inference_mode(): outputs = model(inputs)")


@rule(
    "RL-H23", ClaimOrder.MOMENTS, Numerics.BITWISE, Grade.DOCUMENTED, fix=_fix_gradients_in_inference, least_share=0.0
)
@says(
    "Every step records {nodes:,} nodes of a graph for gradients, and no backward pass follows: gradient mode is "
    "on in inference."
)
@says(
    "The graph also keeps every activation in memory until the output is freed, so that each step takes fresh memory."
)
@says("A backward pass outside of the recorded steps would explain it too.", unless="is_told")
def gradients_in_inference(analysis: RankAnalysis) -> RuleMatch | None:
    """Inference records a graph for gradients that nobody asks for.

    Steps in which operators record nodes, and none of which has a backward pass or an optimizer.
    """
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
    return RuleMatch(claim, nodes=number_of_nodes(analysis, rows), is_told=modes is not None)


def _in_fresh_memory(analysis: RankAnalysis, rows: I64) -> Intervals:
    """The end of each operator that keeps its result, as far as it can have been spent on getting memory.

    Without the graph, memory that was just freed is used again.
    """
    spans = analysis.timeline.spans
    fresh_ns = (largest_elements(analysis, rows) * ELEMENT_BYTES * FRESH_NS_PER_BYTE).astype(np.int64)
    end_ns = spans.end_ns[rows]
    return Intervals.union_of(np.maximum(end_ns - fresh_ns, spans.start_ns[rows]), end_ns)
