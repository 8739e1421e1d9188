"""RL-C02: matrix products are computed in fp32 or tf32 on a device that computes 16-bit numbers faster."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.operator_cost import where_arguments
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.findings.savings import PRODUCTS, in_families, of_calls, savings
from redline.findings.what_if import claimed_time_gone
from redline.hardware.machine import Machine
from redline.ledger.rank.kernels import Floats, OperatorCalls
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.ledger.rank.ratings import operators_of
from redline.numerics import Numerics
from redline.replay.changes import Change
from redline.roofline.roofline import NS_PER_S
from redline.roofline.sizes import has_tensor_of
from redline.timeline.intervals import Intervals
from redline.timeline.timeline import NONE
from redline.trace import schema

WIDE_SHARE = 0.5  # of the time in products
PRODUCT_SHARE = 0.05  # of the kernel time: a job that multiplies less gains little
WIDE = ("fp32", "tf32")
FLOAT = "float"  # fp32, as the profiler names it
REACHED = 0.7  # of the dense peak: tuned matrix products reach 60 to 80 %
NARROW = ("bf16", "fp16")  # the first that the device has a peak for


def match(analysis: RankAnalysis) -> RuleMatch | None:
    machine, calls = analysis.machine, analysis.kernels.calls
    target = next((dtype for dtype in NARROW if machine and machine.peak_flops_per_s(dtype)), "")
    if not analysis.on_gpu or machine is None or not target:
        return None
    products, wide = in_families(calls, PRODUCTS), np.isin(calls.dtype, WIDE)
    wide_ns, product_ns = int(calls.time_ns[products & wide].sum()), int(calls.time_ns[products].sum())
    kernel_ns = int(analysis.timeline.spans.dur_ns[analysis.activity.compute.row].sum())
    if wide_ns <= max(WIDE_SHARE * product_ns, PRODUCT_SHARE * kernel_ns):
        return None
    figures = {"wide_ns": float(wide_ns), "product_ns": float(product_ns)}
    claim = savings(analysis, of_calls(analysis, _saved_ns(calls, machine, target)) + _unrated_ns(analysis))
    return RuleMatch(claim=claim, figures=figures, names={"target": target})


def what_if(analysis: RankAnalysis, claim: Intervals) -> tuple[Change, ...]:
    """Products as near the roof of the narrow type as tuned ones come."""
    machine = analysis.machine
    target = next((dtype for dtype in NARROW if machine and machine.peak_flops_per_s(dtype)), "")
    if machine is None or not target:
        return claimed_time_gone(analysis, claim)
    saved_ns = _saved_ns(analysis.kernels.calls, machine, target, reached=REACHED)
    return claimed_time_gone(analysis, claim & savings(analysis, of_calls(analysis, saved_ns) + _unrated_ns(analysis)))


def _saved_ns(calls: OperatorCalls, machine: Machine, target: str, reached: float = 1.0) -> Floats:
    """Of a product all beyond its roof in the narrow type; of other work on fp32 half, as it moves half the bytes.

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


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    values: dict[str, float | str] = {
        "wide_share": totals.figures["wide_ns"] / max(totals.figures["product_ns"], 1),
        "product_ns": totals.per_step("product_ns"),
        "target": totals.names["target"],
    }
    yield Evidence(
        "Matmuls, convolutions and attention take {product_ns} per step, {wide_share} of it in fp32 or "
        "tf32; {target} has a higher peak and half the bytes.",
        values,
    )
    if totals.names["target"] == "fp16":
        yield Evidence("This device has no fast bf16: use fp16 with a gradient scaler.")


RULE = Rule(
    code="RL-C02",
    claims=ClaimOrder.MATRIX_PRODUCTS,
    numerics=Numerics.LOWER_PRECISION,
    grade=Grade.MEASURED,
    match=match,
    explain=explain,
    what_if=what_if,
    figures=("wide_ns", "product_ns"),
    names=("target",),
    least_share=0.03,
    applies_to_plans=True,
)
