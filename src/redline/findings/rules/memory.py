"""Memory of the device and its allocator, where it costs time."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from redline.findings.evidence import Evidence, Grade
from redline.findings.operator_cost import argument_texts, cost_of, operators_in_steps, outermost
from redline.findings.optimizer_work import launched_during
from redline.findings.rule import ClaimOrder, MatchTotals, RuleMatch, adds, ratio, rule, says
from redline.findings.rules.kernels_products import headroom_of
from redline.findings.usual_steps import without_warm_up
from redline.ledger.rank.activity import Mask
from redline.ledger.rank.distinct import distinct
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.ledger.rank.ratings import recomputed
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.nesting import nearest_of
from redline.timeline.table import I64
from redline.timeline.timeline import CALL_KINDS, NONE, Kind
from redline.trace import schema


@rule("RL-B07", ClaimOrder.AVOIDABLE_KERNELS, Numerics.BITWISE, Grade.DOCUMENTED, least_share=0.02)
@says(
    "zero_grad writes zeros into gradients for {zeroing_ns} of each {step_ns} step, and the backward pass then "
    "adds to {gradients:,} of them instead of writing them, for {adding_ns}.",
    order="zeroing_ns adding_ns gradients step_ns",
)
def gradients_zeroed(analysis: RankAnalysis) -> RuleMatch | None:
    """Gradients are filled with zeros and added to, instead of being dropped and written.

    Zeroing in `zero_grad`, and what the next backward pass adds to zeros: later passes add to gradients.
    """
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
    return RuleMatch(analysis.busy_with(kernels) | analysis.idle_after(time), **figures)


def _added_to_zeros(analysis: RankAnalysis, zeroed_ns: I64) -> I64:
    """Nodes that add to a gradient, in the first backward pass after each zeroing."""
    spans, passes = analysis.timeline.spans, analysis.passes.backward
    first = np.unique(np.searchsorted(passes.start, zeroed_ns))
    first = first[first < len(passes)]
    nodes = analysis.rows_named(schema.accumulates_gradient, Kind.OPERATOR)
    nodes = nodes[Intervals.union_of(passes.start[first], passes.end[first]).contains(spans.start_ns[nodes])]
    return nodes[_adds(analysis, nodes)]


def _adds(analysis: RankAnalysis, nodes: I64) -> Mask:
    """An `add_` runs inside each node."""
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


KNOWN_SHARE = 0.5  # of their time: calls that the forward pass made too; gradients of gradients are numbered as well
HEADROOM = 0.15  # of the device's memory: with less to spare, recomputing is why the job fits


# at least 0.05 of the step: below this memory is cheap at the price
@rule("RL-C13", ClaimOrder.AVOIDABLE_KERNELS, Numerics.BITWISE, Grade.DOCUMENTED, least_share=0.05)
@says(
    "{operators:,} forward operators per step run again inside the backward pass; they take {recomputed_ns} of "
    "each {step_ns} step."
)
@says("{free_share} of the device memory was never reserved.", when="told", free_share=ratio("free", "told"))
@says("Keeping activations takes memory, and free memory was not recorded: check it first.", unless="told")
def recomputation(analysis: RankAnalysis) -> RuleMatch | None:
    """Activation checkpointing runs the forward pass again inside the backward pass."""
    rows = operators_in_steps(analysis)
    again = outermost(analysis, rows[recomputed(analysis.timeline, rows)])
    headroom = headroom_of(analysis)
    if not len(again) or (headroom is not None and headroom <= HEADROOM) or not _repeats_forward(analysis, rows, again):
        return None
    repeated = cost_of(analysis, again) if analysis.on_gpu else _stretches(analysis, again)
    hooks = Intervals.empty() if analysis.on_gpu else analysis.python_in_passes  # pack and unpack every saved tensor
    return RuleMatch(
        repeated | hooks,
        operators=len(again),
        recomputed_ns=repeated.length_ns,
        free=headroom or 0.0,
        told=headroom is not None,
    )


def _repeats_forward(analysis: RankAnalysis, rows: I64, again: I64) -> bool:
    """They compute layers, and most of them were called with the same shapes in the forward pass.

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


TIME_SHARE = 0.01  # of the step
MANY_CALLS = 50  # in every step: an allocator that keeps what it has does not need them
MOSTLY = 0.5  # of the time of these calls
UNUSABLE_SHARE = 0.1  # of the device's memory
RESERVED_SHARE = 0.75  # of the device's memory: below this there is room whatever is unusable
_MEMORY = ("full", "memory_bytes", "unusable_bytes")  # figures of ranks whose memory is full


def _explain_allocator_stalls(totals: MatchTotals) -> Iterator[Evidence]:
    if totals.share >= TIME_SHARE:
        steps = max(totals.figures["steps"], 1)  # first steps that warm up were not counted
        yield Evidence(
            "{calls:,} calls per step allocate or free driver memory, the longest is {call}: they take "
            "{calling_ns}, and the device is idle for {idle_ns} because of them.",
            {
                "calls": round(totals.figures["calls"] / steps),
                "call": totals.names.get("call", "?"),
                "calling_ns": totals.figures["calling_ns"] / steps,
                "idle_ns": totals.alone_ns * totals.steps / steps,
            },
        )
        if _mostly_pins(totals):
            yield Evidence(
                "{pinning_share} of that time goes into pinning memory of the host.",
                {"pinning_share": totals.figures["pinning_ns"] / totals.figures["calling_ns"]},
            )
    if totals.figures["uncached"] and not _mostly_pins(totals):
        yield Evidence(
            "Their number is the same in every step: the caching allocator seems to be off. Check "
            "PYTORCH_NO_CUDA_MEMORY_CACHING in the environment."
        )
    ranks, memory_bytes, unusable_bytes = (totals.figures.get(name, 0.0) for name in _MEMORY)
    if ranks:
        yield Evidence(
            "At the allocation peak, {unusable_bytes} is reserved but not allocated: {unusable_share} of the "
            "device memory.",
            {"unusable_bytes": unusable_bytes / max(ranks, 1), "unusable_share": unusable_bytes / max(memory_bytes, 1)},
        )


def _fix_allocator_stalls(totals: MatchTotals) -> Evidence | None:
    """Settings of the caching allocator do nothing where it is off, nor for memory of the host."""
    if _mostly_pins(totals):
        return Evidence(
            "Pin memory once and fill it in every step, as pin_memory=True of a DataLoader does, instead of pinning "
            "new tensors: buffer.copy_(batch)."
        )
    if not totals.figures["uncached"]:
        return None
    return Evidence(
        "Run without PYTORCH_NO_CUDA_MEMORY_CACHING, so that the allocator keeps memory: "
        "unset PYTORCH_NO_CUDA_MEMORY_CACHING."
    )


@rule(
    "RL-M01",
    ClaimOrder.MOMENTS,
    Numerics.BITWISE,
    Grade.MEASURED,
    figures=("calls", "calling_ns", "steps", "uncached"),
    fix=_fix_allocator_stalls,
    least_share=0.0,
)
@adds(_explain_allocator_stalls)
def allocator_stalls(analysis: RankAnalysis) -> RuleMatch | None:
    """The driver is asked for memory in the middle of steps, or the allocator holds much that it cannot use."""
    if not analysis.on_gpu:
        return None
    spans, ledger = analysis.timeline.spans, analysis.ledger
    rows = analysis.rows_named(_asks_the_driver, *CALL_KINDS)
    edges = np.searchsorted(spans.start_ns[rows], np.stack(analysis.host_steps))
    calls: I64 = edges[1] - edges[0]  # by step
    steps = (
        without_warm_up(analysis, calls) if len(calls) > 1 else Intervals.empty()
    )  # of one alone nothing can be told
    rows = rows[steps.contains(spans.start_ns[rows])]
    memory = _memory(analysis)
    if not len(rows) and not memory:
        return None
    return RuleMatch(
        analysis.idle_after(Intervals.union_of(spans.start_ns[rows], spans.end_ns[rows])),
        calls=len(rows),
        calling_ns=spans.dur_ns[rows].sum(),
        steps=steps.contains(ledger.start_ns).sum(),
        uncached=len(calls) > 1 and calls.min() >= max(MANY_CALLS, 0.9 * calls.max()),
        **_pinning(analysis, rows),
        **memory,
        **({"call": analysis.name(int(rows[spans.dur_ns[rows].argmax()]))} if len(rows) else {}),
    )


def _asks_the_driver(call_name: str) -> bool:
    return schema.is_allocation(call_name) or schema.is_pinning(call_name)


def _pinning(analysis: RankAnalysis, rows: I64) -> dict[str, float]:
    """The time of those calls that pin memory of the host; nothing where there are none."""
    pinning = np.intersect1d(rows, analysis.rows_named(schema.is_pinning, *CALL_KINDS))
    return {"pinning_ns": float(analysis.timeline.spans.dur_ns[pinning].sum())} if len(pinning) else {}


def _memory(analysis: RankAnalysis) -> dict[str, float]:
    """The allocator of the fullest device when most was allocated; nothing where that is no trouble or not known."""
    marks = analysis.timeline.memory
    known = {device.id: device.memory_bytes for device in analysis.timeline.metadata.devices if device.memory_bytes}
    figures: dict[str, float] = {}
    for device, memory_bytes in known.items():
        rows = np.flatnonzero(marks.device == device)
        if not len(rows):
            continue
        peak = rows[marks.allocated_bytes[rows].argmax()]
        reserved_bytes = int(marks.reserved_bytes[peak])
        unusable_bytes = reserved_bytes - int(marks.allocated_bytes[peak])
        if reserved_bytes > RESERVED_SHARE * memory_bytes and unusable_bytes > UNUSABLE_SHARE * memory_bytes:
            figures = dict(zip(_MEMORY, (1.0, memory_bytes, unusable_bytes), strict=True))
    return figures


def _mostly_pins(totals: MatchTotals) -> bool:
    return totals.figures.get("pinning_ns", 0.0) > MOSTLY * totals.figures["calling_ns"]
