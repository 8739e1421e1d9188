"""Kernels whose results nobody needs: gradients, rows, experts, constants."""

import json
from collections import Counter
from collections.abc import Sequence, Set
from itertools import pairwise
from math import prod

import numpy as np

from redline.findings.evidence import Grade
from redline.findings.exposed import last_part
from redline.findings.fixes import is_training
from redline.findings.operator_cost import (
    argument_shapes,
    argument_texts,
    backward_of,
    cost_of,
    operators_in_steps,
    outermost,
)
from redline.findings.rule import ClaimOrder, RuleMatch, rule, says
from redline.ledger.rank.activity import Mask
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.roofline.arguments import Shape
from redline.roofline.sizes import list_shapes_of, product_of, shapes_of
from redline.timeline.intervals import Intervals
from redline.timeline.nesting import nearest_of
from redline.timeline.table import I64
from redline.timeline.timeline import NONE, Kind, Timeline
from redline.trace import schema


@rule("RL-C14", ClaimOrder.AVOIDABLE_KERNELS, Numerics.BITWISE, Grade.DOCUMENTED, least_share=0.05)
@says(
    "The backward pass stores {gradients:,} gradients per step, and the optimizer does not update {unused:,} of "
    "these parameters: computing their gradients takes up to {unused_ns} of each {step_ns} step."
)
def unused_gradients(analysis: RankAnalysis) -> RuleMatch | None:
    """The backward pass computes gradients of parameters that no optimizer updates.

    Parameters are told by their shapes: of those that share one, the first gradients of a pass are taken as used.
    """
    timeline, spans = analysis.timeline, analysis.timeline.spans
    rows = operators_in_steps(analysis)
    stored = rows[matching(timeline, rows, schema.is_gradient_accumulation)]
    updated = _updated(analysis, rows) if len(stored) else Counter()
    if not updated:
        return None
    shape_of = [next(iter(shapes), ()) for shapes in argument_shapes(timeline, stored)]
    number = np.searchsorted(analysis.passes.backward.start, spans.start_ns[stored], side="right") - 1
    unused = _unused(shape_of, number.tolist(), updated)
    if not unused.any():
        return None
    needless = _needless_nodes(analysis, rows, stored[~unused], number[~unused])
    only_unused = {shape for shape, is_unused in zip(shape_of, unused.tolist(), strict=True) if is_unused} - {*updated}
    claim = cost_of(analysis, needless) | cost_of(analysis, _weight_gradients(analysis, rows, only_unused))
    return RuleMatch(claim, gradients=len(stored), unused=unused.sum(), unused_ns=claim.length_ns)


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


FEW = 1 / 8  # of the rows of a table, at most, that a step looks up


# at least 0.1 of the step: sparse updates cost something too
@rule("RL-C18", ClaimOrder.AVOIDABLE_KERNELS, Numerics.SEMANTICS, Grade.DOCUMENTED, least_share=0.1)
@says(
    "A table of {table} gets a dense gradient, though a call looks up at most {looked_up} of its rows: the "
    "backward pass of such tables takes {backward_ns} per step, and their optimizer {updating_ns}."
)
def dense_embedding_gradient(analysis: RankAnalysis) -> RuleMatch | None:
    """A large table of embeddings gets a dense gradient though a step looks up few of its rows.

    Tables whose shape the weights of a layer have too are left out: tied weights get a dense gradient anyway.
    """
    timeline = analysis.timeline
    rows = operators_in_steps(analysis)
    gradients = rows[matching(timeline, rows, schema.is_dense_embedding_gradient)]
    tables = _sparse_tables(analysis, rows) if len(gradients) else {}
    if not tables:
        return None
    backward = cost_of(analysis, _whole_nodes(analysis, gradients))
    updating = _updating(analysis, rows, tables.keys())
    table = max(tables, key=prod)
    return RuleMatch(
        backward | updating,
        backward_ns=backward.length_ns,
        updating_ns=updating.length_ns,
        table=f"{table[0]:,} x {table[1]:,}",
        looked_up=f"{tables[table]:,}",
    )


def _sparse_tables(analysis: RankAnalysis, rows: I64) -> dict[Shape, int]:
    """Shapes of tables of which a call looks up few rows, and how many at most."""
    timeline = analysis.timeline
    tables: dict[Shape, int] = {}
    lookups = outermost(analysis, rows[matching(timeline, rows, schema.is_embedding)])
    for shapes in argument_shapes(timeline, lookups):
        if len(shapes) > 1 and len(shapes[0]) == 2:
            tables[shapes[0]] = max(tables.get(shapes[0], 0), prod(shapes[1]))
    layers = rows[matching(timeline, rows, schema.is_linear)]
    weights = {shapes[1] for shapes in argument_shapes(timeline, layers) if len(shapes) > 1}
    return {shape: found for shape, found in tables.items() if found <= FEW * shape[0] and shape not in weights}


def _whole_nodes(analysis: RankAnalysis, gradients: I64) -> I64:
    """Nodes of the backward pass around these operators: clearing the dense gradient is part of them."""
    spans = analysis.timeline.spans
    nodes = np.zeros(len(spans), bool)
    nodes[analysis.rows_named(schema.is_backward_node, Kind.OPERATOR)] = True
    around = nearest_of(nodes, spans.parent, gradients)
    return np.unique(np.where(around == NONE, gradients, around))


def _updating(analysis: RankAnalysis, rows: I64, tables: Set[Shape]) -> Intervals:
    """The part of the optimizers' time that their tables take, by elements where tables are in a list with others."""
    spans, timeline = analysis.timeline.spans, analysis.timeline
    rows = outermost(analysis, rows[analysis.passes.optimizer.contains(spans.start_ns[rows])])
    texts, _, _ = argument_texts(timeline, rows)
    time = Intervals.empty()
    for row, text in zip(rows.tolist(), texts.tolist(), strict=True):
        shapes = list_shapes_of(timeline.text(text)) or shapes_of(timeline.text(text))[:1]
        elements = sum(map(prod, shapes))
        share = sum(prod(shape) for shape in shapes if shape in tables) / max(elements, 1)
        if share:
            time |= _last_parts(cost_of(analysis, np.array([row])), share)
    return time


def _last_parts(time: Intervals, share: float) -> Intervals:
    kept_ns = np.floor((time.end - time.start) * (1 - share)).astype(np.int64)
    return Intervals.union_of(time.start + kept_ns, time.end)


NEAR = 4  # operators from the softmax of the gate to the choice among its results


@rule("RL-C22", ClaimOrder.AVOIDABLE_KERNELS, Numerics.REASSOCIATION, Grade.DOCUMENTED, least_share=0.05)
@says(
    "{layers:,} layers per step run each of {experts} experts on all {tokens} tokens, though a gate "
    "chooses among them: up to {lost_ns} of each {step_ns} step."
)
def all_experts_computed(analysis: RankAnalysis) -> RuleMatch | None:
    """A mixture of experts computes every expert for all tokens, and masks what was not chosen."""
    layers = _layers(analysis)
    if not layers:
        return None
    claim = Intervals.empty()
    for experts in {experts for experts, _, _ in layers}:
        rows = np.concatenate([rows for other, _, rows in layers if other == experts])
        claim |= last_part(cost_of(analysis, np.union1d(rows, backward_of(analysis, rows))), 1 - 1 / experts)
    return RuleMatch(
        claim,
        layers=len(layers),
        lost_ns=claim.length_ns,
        experts=f"{layers[0][0]:,}",
        tokens=f"{layers[0][1]:,}",
    )


def _layers(analysis: RankAnalysis) -> list[tuple[int, int, I64]]:
    """Experts of each gate, their tokens, and all that they run on every token: until the next gate, as many products
    of one shape of weights as the gate has results, on all its rows."""
    timeline = analysis.timeline
    rows = operators_in_steps(analysis)
    rows = outermost(analysis, rows[analysis.passes.at(timeline.spans.start_ns[rows]) == 0])
    softmax = np.flatnonzero(matching(timeline, rows, schema.is_softmax_call))
    if not any(map(_are_of_gate, argument_shapes(timeline, rows[softmax]))):
        return []
    shapes = argument_shapes(timeline, rows)
    choosing = matching(timeline, rows, schema.is_choice).tolist()
    is_linear = matching(timeline, rows, schema.is_linear).tolist()
    gates = [place for place in softmax.tolist() if _is_gate(place, shapes, choosing)]
    layers = []
    for gate, following in pairwise([*gates, len(rows)]):
        tokens, experts = shapes[gate][0][-2:]
        products = [
            place for place in range(gate + 1, following) if is_linear[place] and _rows(shapes[place]) == tokens
        ]
        weights = Counter(shapes[place][1] for place in products)
        of_experts = [place for place in products if weights[shapes[place][1]] == experts]
        if of_experts:
            between = rows[of_experts[0] : of_experts[-1] + 1]
            layers.append((experts, tokens, between))
    return layers


def _is_gate(place: int, shapes: list[tuple[Shape, ...]], choosing: list[bool]) -> bool:
    """The largest of the results of this softmax is chosen soon."""
    near = range(place + 1, min(place + 1 + NEAR, len(shapes)))
    return _are_of_gate(shapes[place]) and any(choosing[later] and shapes[place][0] in shapes[later] for later in near)


def _are_of_gate(shapes: tuple[Shape, ...]) -> bool:
    """Whether the scores of a softmax are those of a few experts for many tokens."""
    return bool(shapes) and len(shapes[0]) == 2 and 1 < shapes[0][1] < shapes[0][0]


def _rows(shapes: tuple[Shape, ...]) -> int:
    """Rows of the left matrix of a linear layer with two dimensions."""
    return shapes[0][0] if len(shapes) > 1 and len(shapes[0]) == 2 else 0


NORM = "aten::batch_norm"
TRAINING_ARGUMENT = 5  # of it: False where it normalises by the running statistics, which are constants


@rule("RL-C24", ClaimOrder.AVOIDABLE_KERNELS, Numerics.REASSOCIATION, Grade.DOCUMENTED, least_share=0.03)
@says(
    "{norms:,} batch norms per step follow a convolution and only scale and shift its channels by constants: "
    "{norms_ns} of each {step_ns} step."
)
def unfolded_batch_norm(analysis: RankAnalysis) -> RuleMatch | None:
    """Inference runs a batch norm after each convolution, though its constants could be in the convolution.

    Only where the recorded argument says that the batch norm does not train.
    """
    if is_training(analysis):
        return None
    rows = _after_convolutions(analysis)
    if not len(rows):
        return None
    return RuleMatch(cost_of(analysis, rows), norms=len(rows), norms_ns=analysis.timeline.spans.dur_ns[rows].sum())


def _after_convolutions(analysis: RankAnalysis) -> I64:
    """Batch norms whose input has the channels of the convolution right before them."""
    timeline = analysis.timeline
    rows = outermost(analysis, operators_in_steps(analysis))
    if len(rows) < 2:
        return rows[:0]
    is_norm = matching(timeline, rows, lambda name: name == NORM)
    is_convolution = matching(timeline, rows, schema.is_convolution)
    convolutions = np.flatnonzero(is_norm[1:] & is_convolution[:-1])
    norms = rows[convolutions + 1]
    before, after = (argument_shapes(timeline, calls) for calls in (rows[convolutions], norms))
    norms = norms[np.array(list(map(_fits, before, after)), bool)]
    constant: I64 = norms[_are_constant(timeline, norms)]
    return constant


def _fits(convolution: tuple[Shape, ...], norm: tuple[Shape, ...]) -> bool:
    """Whether the input of the norm has the batch and channels that a convolution of these arguments makes."""
    known = len(convolution) > 1 and len(convolution[0]) == len(convolution[1]) > 2
    return known and bool(norm) and norm[0][:2] == (convolution[0][0], convolution[1][0])


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
