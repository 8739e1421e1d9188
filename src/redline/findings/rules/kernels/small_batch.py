"""RL-C06: matrix products of too few rows: reading the weights takes longer than multiplying with them."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.findings.savings import of_calls, savings
from redline.ledger.rank.distinct import distinct
from redline.ledger.rank.kernels import Floats
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.roofline.sizes import BatchedMatmul, product_of
from redline.timeline.table import I64
from redline.trace.steps import ENGINE_ANCHOR

RIDGE_SHARE = 0.5  # of the FLOPs per byte above which the peak is the limit
STEP_SHARE = 0.05  # of the steps, in such products
HEADROOM = 0.15  # of the device's memory


def match(analysis: RankAnalysis) -> RuleMatch | None:
    """Serving engines choose their batches themselves, and have rules of their own."""
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
    figures = {
        "starved_ns": float(starved_ns.sum()),
        "free": headroom or 0.0,
        "told": float(headroom is not None),
    }
    return RuleMatch(
        claim=savings(analysis, of_calls(analysis, saved_ns)), figures=figures, names={"rows": str(commonest)}
    )


def _sizes(analysis: RankAnalysis) -> tuple[I64, Floats]:
    """Of each call the rows of the batch, 0 where they are not the smallest size; and the traffic without weights."""
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


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "Matmuls with {rows} rows take {starved_ns} of each {step_ns} step; the device could multiply at "
        "least twice as many rows in the time it takes to read the weights.",
        {"rows": totals.names["rows"], "starved_ns": totals.per_step("starved_ns"), "step_ns": totals.step_ns},
    )
    if totals.figures["told"]:
        free_share = totals.figures["free"] / max(totals.figures["told"], 1)
        yield Evidence("{free_share} of the device memory was never reserved.", {"free_share": free_share})
    else:
        yield Evidence("Free memory was not recorded: check it before raising the batch size.")


RULE = Rule(
    code="RL-C06",
    claims=ClaimOrder.MATRIX_PRODUCTS,
    numerics=Numerics.REASSOCIATION,
    grade=Grade.MEASURED,
    match=match,
    explain=explain,
    figures=("starved_ns", "told", "free"),
    names=("rows",),
    least_share=STEP_SHARE,
    applies_to_plans=True,
)
