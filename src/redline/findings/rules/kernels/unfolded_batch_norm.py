"""RL-C24: inference runs a batch norm after each convolution, though its constants could be in the convolution."""

import json
from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.fixes import is_training
from redline.findings.operator_cost import argument_texts, cost_of, operators_in_steps, outermost
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.ledger.rank.activity import Mask
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.roofline.sizes import shapes_of
from redline.timeline.table import I64
from redline.timeline.timeline import Timeline
from redline.trace import schema

LEAST_SHARE = 0.03  # of the step
NORM = "aten::batch_norm"
TRAINING_ARGUMENT = 5  # of it: False where it normalises by the running statistics, which are constants
Shape = tuple[int, ...]


def match(analysis: RankAnalysis) -> RuleMatch | None:
    """Only where the recorded argument says that the batch norm does not train."""
    if is_training(analysis):
        return None
    rows = _after_convolutions(analysis)
    if not len(rows):
        return None
    figures = {"norms": float(len(rows)), "norms_ns": float(analysis.timeline.spans.dur_ns[rows].sum())}
    return RuleMatch(claim=cost_of(analysis, rows), figures=figures)


def _after_convolutions(analysis: RankAnalysis) -> I64:
    """Batch norms whose input has the channels of the convolution right before them."""
    timeline = analysis.timeline
    rows = outermost(analysis, operators_in_steps(analysis))
    if len(rows) < 2:
        return rows[:0]
    is_norm = matching(timeline, rows, lambda name: name == NORM)
    is_convolution = matching(timeline, rows, schema.is_convolution)
    follows = np.append(False, is_norm[1:] & is_convolution[:-1] & _fit(timeline, rows))
    norms: I64 = rows[follows]
    constant: I64 = norms[_are_constant(timeline, norms)]
    return constant


def _fit(timeline: Timeline, rows: I64) -> Mask:
    """Whether the input of each call but the first can be the result of a convolution by the call before it."""
    texts, _, _ = argument_texts(timeline, rows)
    distinct, which = np.unique(texts, return_inverse=True)
    shapes = [shapes_of(timeline.text(text)) for text in distinct.tolist()]
    results = [_result(of_call) for of_call in shapes]
    inputs = [of_call[0][:2] if of_call else () for of_call in shapes]
    pairs = zip(which[:-1].tolist(), which[1:].tolist(), strict=True)
    fits: Mask = np.array([bool(results[before]) and results[before] == inputs[after] for before, after in pairs], bool)
    return fits


def _result(shapes: tuple[Shape, ...]) -> Shape:
    """Batch and channels that a convolution of these arguments makes."""
    known = len(shapes) > 1 and len(shapes[0]) == len(shapes[1]) > 2
    return (shapes[0][0], shapes[1][0]) if known else ()


def _are_constant(timeline: Timeline, norms: I64) -> Mask:
    operators = timeline.operators
    values = operators.values[np.searchsorted(operators.row, norms)]
    distinct, which = np.unique(values, return_inverse=True)
    constant = [_is_constant(timeline.text(text)) for text in distinct.tolist()]
    chosen: Mask = np.array(constant, bool)[which]
    return chosen


def _is_constant(values: str) -> bool:
    try:
        return str(json.loads(values)[TRAINING_ARGUMENT]) == "False"
    except (ValueError, TypeError, IndexError, KeyError):
        return False


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "{norms:,} batch norms per step follow a convolution and only scale and shift its channels by constants: "
        "{norms_ns} of each {step_ns} step.",
        {
            "norms": round(totals.per_step("norms")),
            "norms_ns": totals.per_step("norms_ns"),
            "step_ns": totals.step_ns,
        },
    )


RULE = Rule(
    code="RL-C24",
    claims=ClaimOrder.AVOIDABLE_KERNELS,
    numerics=Numerics.REASSOCIATION,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    figures=("norms", "norms_ns"),
    least_share=LEAST_SHARE,
)
