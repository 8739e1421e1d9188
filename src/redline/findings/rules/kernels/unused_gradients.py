"""RL-C14: the backward pass computes gradients of parameters that no optimizer updates."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.operator_cost import argument_texts, cost_of, operators_in_steps, outermost
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.ledger.rank.activity import Mask
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.roofline.sizes import list_shapes_of, product_of, shapes_of
from redline.timeline.table import I64
from redline.timeline.timeline import Kind
from redline.trace import schema

Shape = tuple[int, ...]
STEP_SHARE = 0.05  # of the step


def match(analysis: RankAnalysis) -> RuleMatch | None:
    """Parameters are told by their shapes: of those that share one, the first gradients of a pass are taken as used."""
    timeline, spans = analysis.timeline, analysis.timeline.spans
    rows = operators_in_steps(analysis)
    stored = rows[matching(timeline, rows, schema.is_gradient_accumulation)]
    updated = _updated(analysis, rows) if len(stored) else Counter()
    if not updated:
        return None
    shapes, _, _ = argument_texts(timeline, stored)
    shape_of = [next(iter(shapes_of(timeline.text(text))), ()) for text in shapes.tolist()]
    number = np.searchsorted(analysis.passes.backward.start, spans.start_ns[stored], side="right") - 1
    unused = _unused(shape_of, number.tolist(), updated)
    if not unused.any():
        return None
    needless = _needless_nodes(analysis, rows, stored[~unused], number[~unused])
    only_unused = {shape for shape, is_unused in zip(shape_of, unused.tolist(), strict=True) if is_unused} - {*updated}
    claim = cost_of(analysis, needless) | cost_of(analysis, _weight_gradients(analysis, rows, only_unused))
    figures = {"gradients": float(len(stored)), "unused": float(unused.sum()), "unused_ns": float(claim.length_ns)}
    return RuleMatch(claim=claim, figures=figures)


def _updated(analysis: RankAnalysis, rows: I64) -> Counter[Shape]:
    """How many parameters of each shape the optimizers of a step update; none where a list was too long to be recorded.

    An optimizer calls each of its operators once for a parameter, or once for a list of them.
    """
    timeline, spans = analysis.timeline, analysis.timeline.spans
    regions = analysis.rows_named(schema.is_optimizer_step, Kind.ANNOTATION)
    rows = rows[analysis.passes.optimizer.contains(spans.start_ns[rows])]
    texts, _, _ = argument_texts(timeline, rows)
    is_list = matching(timeline, rows, schema.is_list_operator)
    if not len(regions) or not len(rows):
        return Counter()
    step = np.searchsorted(analysis.ledger.start_ns, spans.start_ns[rows], side="right")
    calls: dict[tuple[int, int], Counter[Shape]] = {}
    columns = (step.tolist(), spans.name[rows].tolist(), texts.tolist(), is_list.tolist())
    for number, name, text, listed in zip(*columns, strict=True):
        shapes = list_shapes_of(timeline.text(text)) if listed else shapes_of(timeline.text(text))[:1]
        if listed and not shapes:
            return Counter()
        calls.setdefault((number, name), Counter()).update(shape for shape in shapes if shape)
    updated: Counter[Shape] = Counter()
    for shapes_of_call in calls.values():
        updated |= shapes_of_call
    return updated


def _unused(shape_of: Sequence[Shape], number: Sequence[int], updated: Counter[Shape]) -> Mask:
    """Which gradients, in order of time, are more than the optimizers update of their shape."""
    seen: Counter[tuple[int, Shape]] = Counter()
    unused = np.zeros(len(shape_of), bool)
    for place, (shape, of_pass) in enumerate(zip(shape_of, number, strict=True)):
        seen[of_pass, shape] += 1
        unused[place] = seen[of_pass, shape] > updated[shape]
    return unused


def _needless_nodes(analysis: RankAnalysis, rows: I64, used: I64, number: I64) -> I64:
    """Nodes of each backward pass after the last gradient that an optimizer uses."""
    spans, backward = analysis.timeline.spans, analysis.passes.backward
    last_ns = backward.start.copy()
    np.maximum.at(last_ns, number, spans.end_ns[used])
    nodes = outermost(analysis, rows[matching(analysis.timeline, rows, schema.is_backward_node)])
    of_pass = np.searchsorted(backward.start, spans.start_ns[nodes], side="right") - 1
    return nodes[(of_pass >= 0) & (spans.start_ns[nodes] >= last_ns[of_pass])]


def _weight_gradients(analysis: RankAnalysis, rows: I64, shapes: set[Shape]) -> I64:
    """Products of the backward pass whose result has one of these shapes."""
    timeline, spans = analysis.timeline, analysis.timeline.spans
    rows = rows[analysis.passes.at(spans.start_ns[rows]) > 0]
    texts, _, _ = argument_texts(timeline, rows)
    chosen = []
    for row, name, text in zip(rows.tolist(), spans.name[rows].tolist(), texts.tolist(), strict=True):
        product = product_of(timeline.text(name), timeline.text(text))
        if product is not None and not {(product.rows, product.columns), (product.columns, product.rows)}.isdisjoint(
            shapes
        ):
            chosen.append(row)
    return np.array(chosen, np.int64)


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "The backward pass stores {gradients:,} gradients per step, and the optimizer does not update {unused:,} of "
        "these parameters: computing their gradients takes up to {unused_ns} of each {step_ns} step.",
        {
            "gradients": round(totals.per_step("gradients")),
            "unused": round(totals.per_step("unused")),
            "unused_ns": totals.per_step("unused_ns"),
            "step_ns": totals.step_ns,
        },
    )


RULE = Rule(
    code="RL-C14",
    claims=ClaimOrder.AVOIDABLE_KERNELS,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    figures=("gradients", "unused", "unused_ns"),
    least_share=STEP_SHARE,
)
