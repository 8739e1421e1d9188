"""RL-C11: operators compute in fp64, usually because data came from NumPy, which makes float64 by default."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.operator_cost import are_inside, marked, where_arguments
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.ledger.rank.activity import Mask
from redline.ledger.rank.disjoint_work import Owned
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.ledger.rank.ratings import operators_of
from redline.numerics import Numerics
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


def match(analysis: RankAnalysis) -> RuleMatch | None:
    rows = analysis.timeline.spans.rows_of(
        Kind.OPERATOR
    )  # not what is compiled: one double among its inputs says little
    rows = rows[matching(analysis.timeline, rows, schema.is_library_operator)]
    wide = rows[where_arguments(analysis.timeline, rows, _has_fp64)]
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
    figures = {"wide_ns": float(wide_ns), "busy_ns": float(busy_ns), "operators": float(len(wide))}
    return RuleMatch(claim=claim, figures=figures, names={"operator": _heaviest(analysis, wide)})


def _has_fp64(shapes: str, types: str, _: str) -> bool:
    return has_tensor_of(_DOUBLE, shapes, types)


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


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "Operators on float64 tensors take {wide_ns} per step, {wide_share} of the busy time.",
        {
            "wide_ns": totals.per_step("wide_ns"),
            "wide_share": totals.figures["wide_ns"] / max(totals.figures["busy_ns"], 1),
        },
    )
    if totals.names["operator"]:
        yield Evidence("Most of it is in {operator}.", {"operator": totals.names["operator"]})


RULE = Rule(
    code="RL-C11",
    claims=ClaimOrder.MATRIX_PRODUCTS,
    numerics=Numerics.LOWER_PRECISION,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    figures=("wide_ns", "busy_ns", "operators"),
    names=("operator",),
    least_share=0.03,
)
