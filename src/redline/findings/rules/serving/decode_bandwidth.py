"""RL-ID02: decode steps read all weights for a few tokens, at nearly the full bandwidth of the memory."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.engine_steps import phases_of, steps_in
from redline.findings.evidence import Evidence, Grade
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.findings.savings import in_families, of_calls, savings
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.timeline import NONE

BANDWIDTH_SHARE = 0.6  # of the published bandwidth: above it, the memory is what limits
STEP_SHARE = 0.5  # of the decode steps, in matrix products
_BITS = {"fp32": 32, "tf32": 32, "fp16": 16, "bf16": 16, "fp8": 8, "int8": 8}
_FEWEST_BITS = 4


def match(analysis: RankAnalysis) -> RuleMatch | None:
    decoding = steps_in(analysis, "decode")
    calls, compute = analysis.kernels.calls, analysis.activity.compute
    if not analysis.on_gpu or not len(decoding) or not len(calls):
        return None
    here = decoding.contains(compute.start_ns) & (analysis.kernels.call_of != NONE)
    products = in_families(calls, ("matmul",)) & np.isin(np.arange(len(calls)), analysis.kernels.call_of[here])
    products &= calls.math_ns < calls.memory_ns
    product_ns, memory_ns = calls.time_ns[products].sum(), calls.memory_ns[products].sum()
    decoding_ns = (decoding - analysis.unowned).length_ns
    if product_ns < STEP_SHARE * decoding_ns or memory_ns < BANDWIDTH_SHARE * product_ns:
        return None
    fewest = np.array([_FEWEST_BITS / _BITS.get(dtype, _FEWEST_BITS) for dtype in calls.dtype.tolist()])
    least_ns = np.maximum(calls.math_ns, calls.memory_ns * fewest)
    figures = {
        "product_ns": float(product_ns),
        "memory_ns": float(memory_ns),
        "decoding_ns": float(decoding_ns),
        "read_bytes": float(calls.bytes[products].sum()),
        "decode_steps": float((phases_of(analysis) == "decode").sum()),
    }
    saved_ns = np.where(products, calls.time_ns - least_ns, 0.0)
    return RuleMatch(claim=savings(analysis, of_calls(analysis, saved_ns)), figures=figures)


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    figures = totals.figures
    steps = max(figures["decode_steps"], 1)
    yield Evidence(
        "A decode step reads {read_bytes} for its matmuls, at {bandwidth_share} of the memory bandwidth; "
        "they take {product_share} of the decode steps.",
        {
            "read_bytes": figures["read_bytes"] / steps,
            "bandwidth_share": figures["memory_ns"] / max(figures["product_ns"], 1),
            "product_share": figures["product_ns"] / max(figures["decoding_ns"], 1),
        },
    )


RULE = Rule(
    code="RL-ID02",
    claims=ClaimOrder.MEMORY_TRAFFIC,
    numerics=Numerics.LOWER_PRECISION,
    grade=Grade.MEASURED,
    match=match,
    explain=explain,
    figures=("decode_steps", "read_bytes", "memory_ns", "product_ns", "decoding_ns"),
    least_share=0.05,
)
