"""RL-C18: a large table of embeddings gets a dense gradient though a step looks up few of its rows."""

from collections.abc import Iterator, Set
from math import prod

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.operator_cost import argument_texts, cost_of, operators_in_steps, outermost
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.roofline.sizes import list_shapes_of, shapes_of
from redline.timeline.intervals import Intervals
from redline.timeline.nesting import nearest_of
from redline.timeline.table import I64
from redline.timeline.timeline import NONE, Kind
from redline.trace import schema

Shape = tuple[int, ...]
FEW = 1 / 8  # of the rows of a table, at most, that a step looks up
STEP_SHARE = 0.1  # of the step: sparse updates cost something too


def match(analysis: RankAnalysis) -> RuleMatch | None:
    """Tables whose shape the weights of a layer have too are left out: tied weights get a dense gradient anyway."""
    timeline = analysis.timeline
    rows = operators_in_steps(analysis)
    gradients = rows[matching(timeline, rows, schema.is_dense_embedding_gradient)]
    tables = _sparse_tables(analysis, rows) if len(gradients) else {}
    if not tables:
        return None
    backward = cost_of(analysis, _whole_nodes(analysis, gradients))
    updating = _updating(analysis, rows, tables.keys())
    table = max(tables, key=prod)
    figures = {"backward_ns": float(backward.length_ns), "updating_ns": float(updating.length_ns)}
    names = {"table": f"{table[0]:,} x {table[1]:,}", "looked_up": f"{tables[table]:,}"}
    return RuleMatch(claim=backward | updating, figures=figures, names=names)


def _sparse_tables(analysis: RankAnalysis, rows: I64) -> dict[Shape, int]:
    """Shapes of tables of which a call looks up few rows, and how many at most."""
    timeline = analysis.timeline
    tables: dict[Shape, int] = {}
    for row in outermost(analysis, rows[matching(timeline, rows, schema.is_embedding)]).tolist():
        shapes = _shapes(analysis, row)
        if len(shapes) > 1 and len(shapes[0]) == 2:
            tables[shapes[0]] = max(tables.get(shapes[0], 0), prod(shapes[1]))
    layers = rows[matching(timeline, rows, schema.is_linear)].tolist()
    weights = {shapes[1] for row in layers if len(shapes := _shapes(analysis, row)) > 1}
    return {shape: found for shape, found in tables.items() if found <= FEW * shape[0] and shape not in weights}


def _shapes(analysis: RankAnalysis, row: int) -> tuple[Shape, ...]:
    texts, _, _ = argument_texts(analysis.timeline, np.array([row]))
    return shapes_of(analysis.timeline.text(int(texts[0])))


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


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "A table of {table} gets a dense gradient, though a call looks up at most {looked_up} of its rows: the "
        "backward pass of such tables takes {backward_ns} per step, and their optimizer {updating_ns}.",
        {
            "table": totals.names["table"],
            "looked_up": totals.names["looked_up"],
            "backward_ns": totals.per_step("backward_ns"),
            "updating_ns": totals.per_step("updating_ns"),
        },
    )


RULE = Rule(
    code="RL-C18",
    claims=ClaimOrder.AVOIDABLE_KERNELS,
    numerics=Numerics.SEMANTICS,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    figures=("backward_ns", "updating_ns"),
    names=("table", "looked_up"),
    least_share=STEP_SHARE,
)
