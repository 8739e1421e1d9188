"""Matrix products that are far from their roof, or of too few rows."""

from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np

from redline.findings.evidence import Evidence, Grade
from redline.findings.model_calls import steady_growth
from redline.findings.operator_cost import argument_texts
from redline.findings.rule import ClaimOrder, MatchTotals, RuleMatch, adds, ratio, rule, says
from redline.findings.savings import FLOPS_PER_BYTE, PRODUCTS, in_families, of_calls, savings, work_that_stays
from redline.ledger.rank.distinct import distinct
from redline.ledger.rank.host_phases import Phase
from redline.ledger.rank.kernels import Floats
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.phases import PhaseKind
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.roofline.sizes import BatchedMatmul, product_of, shapes_of
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import NONE, Kind
from redline.trace import schema
from redline.trace.steps import ENGINE_ANCHOR

KERNEL_SHARE = 0.15  # of the kernel time, in calls of one operator with the same shapes
ROOF_SHARE = 0.4  # of its roof: libraries reach 60 % and more on sizes that suit them
LONG_NS = 20_000  # of a call: shorter ones end before the device is full
_LONGEST_NAME = 100  # letters of a kernel's name


@rule("RL-C19", ClaimOrder.MATRIX_PRODUCTS, Numerics.REASSOCIATION, Grade.DOCUMENTED, least_share=0.05)
@says(
    "{operator} on {shapes} takes {kernel_share} of the kernel time, {calls:,} calls per step, and runs at "
    "{roof_share} of its roof.",
    kernel_share=ratio("time_ns", "kernel_ns"),
    roof_share=ratio("needed_ns", "time_ns"),
)
@says("Its kernel is {kernel}.")
def far_from_roof(analysis: RankAnalysis) -> RuleMatch | None:
    """One matrix product, convolution or attention has much of the kernel time and is far from its roof.

    Of the calls that are far from their roof, those of the operator and shapes that lose most.
    """
    calls = analysis.kernels.calls
    if not analysis.on_gpu or analysis.machine is None or not len(calls):
        return None
    shapes, _, _ = argument_texts(analysis.timeline, calls.row)
    _, group = distinct(analysis.timeline.spans.name[calls.row], shapes)
    chosen = in_families(calls, PRODUCTS) & calls.has_roof & (shapes >= 0)
    roof_ns = np.where(chosen, np.maximum(calls.math_ns, calls.memory_ns), 0.0)
    time_ns, needed_ns = (np.bincount(group, np.where(chosen, ns, 0)) for ns in (calls.time_ns, roof_ns))
    kernel_ns = float(analysis.activity.compute.dur_ns.sum())
    mean_ns = time_ns / np.maximum(np.bincount(group, chosen), 1)
    is_far = (needed_ns < ROOF_SHARE * time_ns) & (time_ns >= KERNEL_SHARE * kernel_ns) & (mean_ns >= LONG_NS)
    if not is_far.any():
        return None
    worst = int(np.where(is_far, time_ns - needed_ns, -1.0).argmax())
    members = np.flatnonzero(chosen & (group == worst))
    lost_ns = np.where(chosen & (group == worst), calls.time_ns - roof_ns, 0.0)
    return RuleMatch(
        savings(analysis, of_calls(analysis, lost_ns)),
        calls=len(members),
        time_ns=time_ns[worst],
        needed_ns=needed_ns[worst],
        kernel_ns=kernel_ns,
        operator=analysis.name(int(calls.row[members[0]])),
        shapes=_shown(analysis.timeline.text(int(shapes[members[0]]))),
        kernel=analysis.timeline.text(int(calls.kernel_name[members[0]]))[:_LONGEST_NAME],
    )


def _shown(text: str) -> str:
    """Shapes of its tensors: 15360x4096, 4096x24576."""
    return ", ".join("x".join(map(str, shape)) for shape in shapes_of(text) if shape)


RIDGE_SHARE = 0.5  # of the FLOPs per byte above which the peak is the limit
STEP_SHARE = 0.05  # of the steps, in such products
HEADROOM = 0.15  # of the device's memory


@rule(
    "RL-C06",
    ClaimOrder.MATRIX_PRODUCTS,
    Numerics.REASSOCIATION,
    Grade.MEASURED,
    least_share=STEP_SHARE,
    applies_to_plans=True,
)
@says(
    "Matmuls with {rows} rows take {starved_ns} of each {step_ns} step; the device could multiply at "
    "least twice as many rows in the time it takes to read the weights."
)
@says("{free_share} of the device memory was never reserved.", when="told", free_share=ratio("free", "told"))
@says("Free memory was not recorded: check it before raising the batch size.", unless="told")
def small_batch(analysis: RankAnalysis) -> RuleMatch | None:
    """Matrix products of too few rows: reading the weights takes longer than multiplying with them.

    Serving engines choose their batches themselves, and have rules of their own.
    """
    calls = analysis.kernels.calls
    engine = analysis.timeline.step_anchor == ENGINE_ANCHOR
    if not analysis.on_gpu or analysis.machine is None or engine or not len(calls):
        return None
    rows, rest = _sizes(analysis)
    starved = (rows > 0) & (calls.math_ns < RIDGE_SHARE * calls.memory_ns)
    starved_ns = np.where(starved, calls.time_ns, 0)
    commonest = int(np.bincount(rows, weights=starved_ns).argmax())
    starved_ns = np.where(rows == commonest, starved_ns, 0)
    headroom = headroom_of(analysis)
    if starved_ns.sum() < STEP_SHARE * analysis.steps_ns or (headroom is not None and headroom <= HEADROOM):
        return None
    saved_ns = starved_ns - np.maximum(calls.math_ns, calls.memory_ns * rest)
    return RuleMatch(
        savings(analysis, of_calls(analysis, saved_ns)),
        starved_ns=starved_ns.sum(),
        free=headroom or 0.0,
        told=headroom is not None,
        rows=str(commonest),
    )


def _sizes(analysis: RankAnalysis) -> tuple[I64, Floats]:
    """The rows of the batch of each call, 0 where they are not the smallest size; and the traffic without weights."""
    timeline, row = analysis.timeline, analysis.kernels.calls.row
    operators = timeline.operators
    shapes = operators.shapes[np.searchsorted(operators.row, row)]
    keys, which = distinct(timeline.spans.name[row], shapes)
    products = [product_of(timeline.text(name), timeline.text(shape)) for name, shape in keys.T.tolist()]
    rows = np.array([_batch_rows(product) for product in products], np.int64)
    rest = np.array([_without_weights(product) for product in products], np.float64)
    return rows[which], rest[which]


def _batch_rows(product: BatchedMatmul | None) -> int:
    """Rows of the batch are rows of the left matrix, or those that a gradient of weights sums over."""
    if product is None or product.batch != 1:
        return 0
    smallest = min(product.rows, product.inner)
    return smallest if smallest < product.columns else 0


def _without_weights(product: BatchedMatmul | None) -> float:
    """The largest of the three matrices is the weights: it has the two larger sizes. All others grow with the batch."""
    if product is None:
        return 1.0
    sizes = (product.rows * product.inner, product.inner * product.columns, product.rows * product.columns)
    return 1 - max(sizes) / max(sum(sizes), 1)


def headroom_of(analysis: RankAnalysis) -> float | None:
    """The share of the device's memory that the allocator never reserved; None where that was not recorded."""
    memory, machine = analysis.timeline.memory, analysis.machine
    reserved_bytes = int(memory.reserved_bytes[memory.device >= 0].max(initial=0))
    known = max((device.memory_bytes for device in analysis.timeline.metadata.devices), default=0)
    if not known and machine is not None and machine.memory_bytes is not None:
        known = int(machine.memory_bytes.value)
    return 1 - reserved_bytes / known if known and reserved_bytes else None


FEW_ROWS = 2 * FLOPS_PER_BYTE
"""Rows of a layer's input, all samples and positions together: a weight of four bytes is used in two FLOPs for each, so
that with fewer rows a core waits for the weights."""
SHARE = 0.5  # of the time in layers, that such few rows take
LOOPS = 2  # calls of layers to each parameter that gets a gradient: the model runs several times in a pass
FLAT_LAYER = "aten::addmm"  # a layer that makes samples and positions one size, as Conv1D of transformers does
GROWING_CALLS = 3  # two lengths in a row may be chance


def _explain_tiny_batches(totals: MatchTotals) -> Iterator[Evidence]:
    ranks = max(totals.ranks, 1)
    values = {
        "rows": round(totals.figures["rows"] / ranks),
        "samples": round(totals.figures["samples"] / ranks),
        "passes": round(totals.figures["passes"] / ranks),
        "step_ns": totals.step_ns,
    }
    if totals.figures["passes"] and totals.figures["one_by_one"]:
        yield Evidence(
            "The model is called for one sample after the other: in each {step_ns} step its layers see {rows:,} rows "
            "of a single sample at a time, and one backward pass goes through all of these calls.",
            values,
        )
    elif totals.figures["passes"]:
        yield Evidence(
            "Each {step_ns} step accumulates the gradients of {passes:,} micro-batches, whose layers see {rows:,} rows "
            "at a time: reading weights and starting operators takes longer than computing.",
            values,
        )
    else:
        yield Evidence(
            "Requests are computed one by one: each {step_ns} step has a batch of {samples:,}, whose layers see "
            "{rows:,} rows.",
            values,
        )


@rule(
    "RL-B02",
    ClaimOrder.LAUNCHES,
    Numerics.REASSOCIATION,
    Grade.MEASURED,
    figures=("passes", "rows", "samples", "one_by_one"),
    least_share=0.1,
)
@adds(_explain_tiny_batches)
def tiny_batches(analysis: RankAnalysis) -> RuleMatch | None:
    """Passes over so few samples that reading weights and starting operators takes longer than computing.

    On a CPU; RL-C06 says it of GPUs, whose roofs are known. A stage of a pipeline needs its micro-batches.
    """
    if analysis.on_gpu or len(analysis.rows_named(schema.is_point_to_point, Kind.COMMUNICATION)):
        return None
    samples, rows, time_ns = _layers(analysis)
    few = (rows > 0) & (rows <= FEW_ROWS)
    if not time_ns.sum() or time_ns[few].sum() < SHARE * time_ns.sum():
        return None
    passes = len(analysis.passes.backward) / max(len(analysis.host_steps[0]), 1)
    is_one_by_one = time_ns[few & (samples == 1)].sum() >= SHARE * time_ns.sum()
    if passes >= 2:
        claim = _later_passes(analysis)
    elif is_one_by_one and (_runs_repeatedly(analysis, len(rows)) if passes else _answers(analysis, rows[few])):
        claim = _model_time(analysis)
    else:
        return None
    return RuleMatch(
        claim - work_that_stays(analysis),
        passes=passes,
        rows=np.median(rows[few]),
        samples=np.median(samples[few]),
        one_by_one=is_one_by_one and passes < 2,
    )


def _runs_repeatedly(analysis: RankAnalysis, calls: int) -> bool:
    """One backward pass goes through a loop that calls the same layers for one sample after the other."""
    parameters = len(analysis.rows_named(schema.accumulates_gradient, Kind.OPERATOR))
    return 0 < LOOPS * parameters <= calls


def _answers(analysis: RankAnalysis, rows: I64) -> bool:
    """Requests are computed one by one: what is no text, texts as a whole, or a new text after single tokens.

    A text that grows is RL-C16.
    """
    is_text = rows > 1
    if steady_growth(rows[is_text], GROWING_CALLS):
        return False
    if not is_text.any():
        return not len(analysis.rows_named(_is_of_text, Kind.OPERATOR))
    return bool(is_text.all()) or bool((is_text[1:] & ~is_text[:-1]).any())


def _is_of_text(operator_name: str) -> bool:
    return schema.is_embedding(operator_name) or schema.is_attention(operator_name) or schema.is_softmax(operator_name)


def _layers(analysis: RankAnalysis) -> tuple[I64, I64, I64]:
    """Samples, rows and time of each call of a linear layer with known shapes."""
    timeline, operators, parent = analysis.timeline, analysis.timeline.operators, analysis.timeline.spans.parent
    is_layer = matching(timeline, operators.row, schema.is_linear)
    if not len(analysis.passes.backward):  # whose nodes call products too
        inside = matching(timeline, parent[operators.row], schema.is_linear) & (parent[operators.row] != NONE)
        is_layer |= matching(timeline, operators.row, lambda name: name == FLAT_LAYER) & ~inside
    chosen = np.flatnonzero(is_layer & (operators.shapes >= 0))
    samples_of = _samples_by_rows(analysis)
    keys, which = distinct(operators.shapes[chosen])
    found = [_batch(shapes_of(timeline.text(shapes)), samples_of) for shapes in keys[0].tolist()]
    sizes = np.array(found, np.int64).reshape(-1, 2)[which]
    return sizes[:, 0], sizes[:, 1], timeline.spans.dur_ns[operators.row[chosen]]


def _samples_by_rows(analysis: RankAnalysis) -> dict[int, int]:
    """How many samples so many rows are, by the tokens that are looked up; the most, where several sizes fit."""
    timeline, operators = analysis.timeline, analysis.timeline.operators
    chosen = operators.shapes[matching(timeline, operators.row, schema.is_embedding) & (operators.shapes >= 0)]
    samples: dict[int, int] = {}
    for text in np.unique(chosen).tolist():
        indices = shapes_of(timeline.text(text))[1:2]
        if indices and len(indices[0]) == 2:
            rows = prod(indices[0])
            samples[rows] = max(samples.get(rows, 0), indices[0][0])
    return samples


def _batch(shapes: Sequence[Sequence[int]], samples_of: Mapping[int, int]) -> tuple[int, int]:
    """Samples and rows of a layer's input; (0, 0) where they are not known."""
    if len(shapes) > 1 and len(shapes[0]) > 1:
        return shapes[0][0], prod(shapes[0][:-1])
    if len(shapes) > 1 and [len(shape) for shape in shapes[:3]] in ([1, 2], [1, 2, 0], [1, 2, 1]):
        return 1, 1  # a vector, the weights, and maybe a bias
    if len(shapes) > 2 and len(shapes[1]) == 2:  # a bias comes first, and samples and positions are one size
        return samples_of.get(shapes[1][0], 0), shapes[1][0]
    return 0, 0


def _later_passes(analysis: RankAnalysis) -> Intervals:
    """Forward and backward time of each step after its first backward pass: one larger pass takes at least as long as
    the first."""
    time = _model_time(analysis)
    passes, (start_ns, end_ns) = analysis.passes.backward, analysis.host_steps
    first = np.searchsorted(passes.start, start_ns)
    has_pass = first < np.searchsorted(passes.start, end_ns)
    over_ns = passes.end[first[has_pass]]
    return time & Intervals.union_of(over_ns, np.maximum(end_ns[has_pass], over_ns))


def _model_time(analysis: RankAnalysis) -> Intervals:
    kinds = PhaseKind.DEVICE, PhaseKind.HOST
    return analysis.phases.time(Phase.FORWARD, *kinds) | analysis.phases.time(Phase.BACKWARD, *kinds)
