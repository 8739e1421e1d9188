"""Numbers that are wider than they need to be, and conversions between types."""

import numpy as np

from redline.findings.callers import caller_of, site_of
from redline.findings.evidence import Grade
from redline.findings.operator_cost import (
    are_inside,
    argument_texts,
    backward_of,
    cost_of,
    marked,
    read_again,
    where_arguments,
)
from redline.findings.rule import ClaimOrder, RuleMatch, adds, ratio, rule, says
from redline.findings.savings import PRODUCTS, in_families, of_calls, savings
from redline.findings.tensor_copies import type_round_trips
from redline.findings.what_if import claimed_time_gone
from redline.hardware.machine import Machine
from redline.ledger.rank.activity import Mask
from redline.ledger.rank.disjoint_work import Owned
from redline.ledger.rank.kernels import Floats, OperatorCalls
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.ledger.rank.ratings import operators_of
from redline.numerics import Numerics
from redline.replay.changes import Change
from redline.roofline.roofline import NS_PER_S
from redline.roofline.sizes import has_tensor_of
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import NONE, Kind
from redline.trace import schema

BUSY_SHARE = 0.05  # of the device's busy time, in fp64
MOST = 0.5  # of it: then lists of tensors, whose types are not recorded, are fp64 too
CPU_KEPT = 1 / 4  # half the bytes and twice the numbers per instruction, and functions in half the terms
COPY_KEPT = 1 / 2  # half the bytes
GPU_KEPT = 1 / 64  # the slowest fp64 of any GPU against its fp32
_DOUBLE = "double"


@rule("RL-C11", ClaimOrder.MATRIX_PRODUCTS, Numerics.LOWER_PRECISION, Grade.DOCUMENTED, least_share=0.03)
@says(
    "Operators on float64 tensors take {wide_ns} per step, {wide_share} of the busy time.",
    wide_share=ratio("wide_ns", "busy_ns"),
)
@says("Most of it is in {operator}.", when="operator")
def fp64(analysis: RankAnalysis) -> RuleMatch | None:
    """Operators compute in fp64, usually because data came from NumPy, which makes float64 by default."""
    rows = analysis.timeline.spans.rows_of(
        Kind.OPERATOR
    )  # not what is compiled: one double among its inputs says little
    rows = rows[matching(analysis.timeline, rows, schema.is_library_operator)]
    named = np.array([_DOUBLE in text for text in analysis.timeline.texts] + [False])  # NONE is the last one
    doubles = rows[named[argument_texts(analysis.timeline, rows)[1]]]
    wide = doubles[
        where_arguments(analysis.timeline, doubles, lambda shapes, types, _: has_tensor_of(_DOUBLE, shapes, types))
    ]
    if not len(wide):
        return None
    owned = (analysis.activity.compute, analysis.activity.copies)
    chosen = [_of_operators(analysis, pieces, wide) for pieces in owned]
    wide_ns = sum(int(pieces.dur_ns[mask].sum()) for pieces, mask in zip(owned, chosen, strict=True))
    busy_ns = analysis.activity.busy.length_ns
    if wide_ns < BUSY_SHARE * busy_ns:
        return None
    if wide_ns > MOST * busy_ns:
        lists = rows[matching(analysis.timeline, rows, schema.is_list_operator)]
        chosen = [mask | _of_operators(analysis, pieces, lists) for pieces, mask in zip(owned, chosen, strict=True)]
    claim = _saved(owned[0], chosen[0], GPU_KEPT if analysis.on_gpu else CPU_KEPT) | _saved(
        owned[1], chosen[1], COPY_KEPT
    )
    return RuleMatch(claim, wide_ns=wide_ns, busy_ns=busy_ns, operators=len(wide), operator=_heaviest(analysis, wide))


def _of_operators(analysis: RankAnalysis, pieces: Owned, operators: I64) -> Mask:
    """Which pieces of device work one of these operators did, or launched."""
    if not analysis.on_gpu:
        return are_inside(analysis, pieces.row, marked(analysis, operators))
    return np.isin(pieces.row, analysis.launched_under(marked(analysis, operators)))


def _saved(pieces: Owned, chosen: Mask, kept: float) -> Intervals:
    """The last part of each chosen piece."""
    kept_ns = np.ceil(pieces.dur_ns[chosen] * kept).astype(np.int64)
    return Intervals.union_of(pieces.start_ns[chosen] + kept_ns, pieces.end_ns[chosen])


def _heaviest(analysis: RankAnalysis, wide: I64) -> str:
    """The operator that computes longest in fp64."""
    compute = analysis.activity.compute
    operator = operators_of(analysis.timeline, analysis.activity)
    chosen = np.isin(operator, wide) & (operator != NONE)
    if not chosen.any():
        return ""
    name = analysis.timeline.spans.name[operator[chosen]]
    return analysis.timeline.text(int(np.bincount(name, compute.dur_ns[chosen]).argmax()))


WIDE_SHARE = 0.5  # of the time in products
PRODUCT_SHARE = 0.05  # of the kernel time: a job that multiplies less gains little
WIDE = ("fp32", "tf32")
FLOAT = "float"  # fp32, as the profiler names it
REACHED = 0.7  # of the dense peak: tuned matrix products reach 60 to 80 %
NARROW = ("bf16", "fp16")  # the first that the device has a peak for


def _what_if_fp32_matmul(analysis: RankAnalysis, claim: Intervals) -> tuple[Change, ...]:
    """Products as near the roof of the narrow type as tuned ones come."""
    machine = analysis.machine
    target = next((dtype for dtype in NARROW if machine and machine.peak_flops_per_s(dtype)), "")
    if machine is None or not target:
        return claimed_time_gone(analysis, claim)
    saved_ns = _saved_ns(analysis.kernels.calls, machine, target, reached=REACHED)
    return claimed_time_gone(analysis, claim & savings(analysis, of_calls(analysis, saved_ns) + _unrated_ns(analysis)))


@rule(
    "RL-C02",
    ClaimOrder.MATRIX_PRODUCTS,
    Numerics.LOWER_PRECISION,
    Grade.MEASURED,
    what_if=_what_if_fp32_matmul,
    least_share=0.03,
    applies_to_plans=True,
)
@says(
    "Matmuls, convolutions and attention take {product_ns} per step, {wide_share} of it in fp32 or "
    "tf32; {target} has a higher peak and half the bytes.",
    order="wide_share product_ns target",
    wide_share=ratio("wide_ns", "product_ns"),
)
@says(
    "This device has no fast bf16: use fp16 with a gradient scaler.",
    when=lambda totals: totals.names["target"] == "fp16",
)
def fp32_matmul(analysis: RankAnalysis) -> RuleMatch | None:
    """Matrix products are computed in fp32 or tf32 on a device that computes 16-bit numbers faster."""
    machine, calls = analysis.machine, analysis.kernels.calls
    target = next((dtype for dtype in NARROW if machine and machine.peak_flops_per_s(dtype)), "")
    if not analysis.on_gpu or machine is None or not target:
        return None
    products, wide = in_families(calls, PRODUCTS), np.isin(calls.dtype, WIDE)
    wide_ns, product_ns = int(calls.time_ns[products & wide].sum()), int(calls.time_ns[products].sum())
    kernel_ns = int(analysis.timeline.spans.dur_ns[analysis.activity.compute.row].sum())
    if wide_ns <= max(WIDE_SHARE * product_ns, PRODUCT_SHARE * kernel_ns):
        return None
    claim = savings(analysis, of_calls(analysis, _saved_ns(calls, machine, target)) + _unrated_ns(analysis))
    return RuleMatch(claim, wide_ns=wide_ns, product_ns=product_ns, target=target)


def _saved_ns(calls: OperatorCalls, machine: Machine, target: str, reached: float = 1.0) -> Floats:
    """The time of a product beyond its roof in the narrow type; of other work on fp32 half, as it moves half the bytes.

    Optimizers keep fp32.
    """
    peak, bandwidth = machine.peak_flops_per_s(target), machine.memory_bytes_per_s
    wide = np.isin(calls.dtype, WIDE)
    if peak is None or bandwidth is None:
        return np.zeros(len(calls))
    roof_ns = np.maximum(calls.flops / peak.value, calls.bytes / 2 / bandwidth.value) * NS_PER_S / reached
    saved_ns = np.where(in_families(calls, PRODUCTS), calls.time_ns - roof_ns, calls.time_ns / 2)
    return np.where(wide & ~in_families(calls, ("optimizer",)), saved_ns, 0.0)


def _unrated_ns(analysis: RankAnalysis) -> Floats:
    """All time of each piece of attention on fp32 whose work is not known: nothing says what would be left of it."""
    timeline, compute = analysis.timeline, analysis.activity.compute
    operator = operators_of(timeline, analysis.activity)
    unknown = np.flatnonzero((analysis.kernels.call_of == NONE) & (operator != NONE))
    unknown = unknown[matching(timeline, operator[unknown], schema.is_attention)]
    unrated_ns = np.zeros(len(compute))
    if len(unknown):
        wide = where_arguments(
            timeline, operator[unknown], lambda shapes, types, _: has_tensor_of(FLOAT, shapes, types)
        )
        unrated_ns[unknown[wide]] = compute.dur_ns[unknown[wide]]
    return unrated_ns


# at least 0.1 of the step: norms of language models are computed in fp32 on purpose, and cost half of that
@rule("RL-C25", ClaimOrder.AVOIDABLE_KERNELS, Numerics.LOWER_PRECISION, Grade.DOCUMENTED, least_share=0.1)
@says(
    "{conversions:,} calls per step convert tensors to another floating-point type, and as often back: with their "
    "backward nodes they take {converting_ns} of each {step_ns} step."
)
@adds(site_of)
def type_conversions(analysis: RankAnalysis) -> RuleMatch | None:
    """The program converts tensors to another floating-point type, and back."""
    rows = type_round_trips(analysis)
    if not len(rows):
        return None
    claim = cost_of(analysis, rows) | cost_of(analysis, np.unique(backward_of(analysis, rows)))
    return RuleMatch(
        claim | read_again(analysis, rows),
        conversions=len(rows),
        converting_ns=claim.length_ns,
        **caller_of(analysis, rows, analysis.timeline.spans.dur_ns[rows]),
    )
