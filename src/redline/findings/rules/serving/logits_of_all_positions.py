"""RL-C21: inference computes the logits of all positions and reads only the last one."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.model_calls import runs_backward
from redline.findings.operator_cost import argument_texts, cost_of, operators_in_steps, outermost
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.roofline.sizes import shapes_of
from redline.trace import schema

WIDE = 4  # times as many logits as inputs: the head of a language model, and no layer inside it
STEP_SHARE = 0.03  # of the step
Shape = tuple[int, ...]


def match(analysis: RankAnalysis) -> RuleMatch | None:
    if runs_backward(analysis):
        return None
    heads = _heads(analysis)
    if not heads:
        return None
    rows = np.array(sorted(heads), np.int64)
    _, length, words = max(heads.values(), key=lambda shape: shape[1] * shape[2])
    figures = {"heads": float(len(rows)), "heads_ns": float(analysis.timeline.spans.dur_ns[rows].sum())}
    return RuleMatch(
        claim=cost_of(analysis, rows),
        figures=figures,
        names={"length": f"{length:,}", "words": f"{words:,}"},
    )


def _heads(analysis: RankAnalysis) -> dict[int, Shape]:
    """Products whose result nothing reads but one selection of positions, with the shape of their results."""
    rows = outermost(analysis, operators_in_steps(analysis))
    texts, _, _ = argument_texts(analysis.timeline, rows)
    shapes = [shapes_of(analysis.timeline.text(text)) for text in texts.tolist()]
    is_selection = matching(analysis.timeline, rows, schema.is_selection).tolist()
    products = np.flatnonzero(matching(analysis.timeline, rows, schema.is_linear)).tolist()
    heads: dict[int, Shape] = {}
    for place, following in pairwise([*products, len(rows)]):
        result = _result(shapes[place])
        readers = [later for later in range(place + 1, following) if result and result in shapes[later]]
        if len(readers) == 1 and is_selection[readers[0]]:
            heads[int(rows[place])] = result
    return heads


def _result(shapes: tuple[Shape, ...]) -> Shape:
    """[batch, length, words] of a product with far more results than inputs; () of any other."""
    if len(shapes) < 2 or len(shapes[0]) != 3 or len(shapes[1]) != 2:
        return ()
    (batch, length, width), words = shapes[0], shapes[1][0]
    return (batch, length, words) if length > 1 and words >= WIDE * width else ()


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "{heads:,} products per step compute {words} logits at all {length} positions, and only some positions are "
        "read: {heads_ns} of each {step_ns} step.",
        {
            "heads": round(totals.per_step("heads")),
            "words": totals.names["words"],
            "length": totals.names["length"],
            "heads_ns": totals.per_step("heads_ns"),
            "step_ns": totals.step_ns,
        },
    )


RULE = Rule(
    code="RL-C21",
    claims=ClaimOrder.MEMORY_TRAFFIC,
    numerics=Numerics.REASSOCIATION,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    figures=("heads", "heads_ns"),
    names=("length", "words"),
    least_share=STEP_SHARE,
)
