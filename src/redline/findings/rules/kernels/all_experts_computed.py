"""RL-C22: a mixture of experts computes every expert for all tokens, and masks what was not chosen."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.exposed import last_part
from redline.findings.operator_cost import argument_texts, backward_of, cost_of, operators_in_steps, outermost
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.roofline.sizes import shapes_of
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.trace import schema

Shape = tuple[int, ...]
STEP_SHARE = 0.05  # of the step
NEAR = 4  # operators from the softmax of the gate to the choice among its results


@dataclass(frozen=True, kw_only=True)
class _ExpertLayer:
    """A gate, and all that its experts run on every token."""

    experts: int
    tokens: int
    rows: I64


def match(analysis: RankAnalysis) -> RuleMatch | None:
    layers = _layers(analysis)
    if not layers:
        return None
    claim = Intervals.empty()
    for experts in {layer.experts for layer in layers}:
        rows = np.concatenate([layer.rows for layer in layers if layer.experts == experts])
        claim |= last_part(cost_of(analysis, np.union1d(rows, backward_of(analysis, rows))), 1 - 1 / experts)
    figures = {"layers": float(len(layers)), "lost_ns": float(claim.length_ns)}
    names = {"experts": f"{layers[0].experts:,}", "tokens": f"{layers[0].tokens:,}"}
    return RuleMatch(claim=claim, figures=figures, names=names)


def _layers(analysis: RankAnalysis) -> list[_ExpertLayer]:
    """From each gate to the next: as many products of one shape of weights as the gate has results, on all its rows."""
    timeline = analysis.timeline
    rows = operators_in_steps(analysis)
    rows = outermost(analysis, rows[analysis.passes.at(timeline.spans.start_ns[rows]) == 0])
    texts, _, _ = argument_texts(timeline, rows)
    shapes = [shapes_of(timeline.text(text)) for text in texts.tolist()]
    choosing = matching(timeline, rows, schema.is_choice).tolist()
    is_linear = matching(timeline, rows, schema.is_linear).tolist()
    softmax = np.flatnonzero(matching(timeline, rows, schema.is_softmax_call)).tolist()
    gates = [place for place in softmax if _is_gate(place, shapes, choosing)]
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
            layers.append(_ExpertLayer(experts=experts, tokens=tokens, rows=between))
    return layers


def _is_gate(place: int, shapes: list[tuple[Shape, ...]], choosing: list[bool]) -> bool:
    """Whether the largest of the results of this softmax is chosen soon."""
    scores = shapes[place][0] if shapes[place] else ()
    near = range(place + 1, min(place + 1 + NEAR, len(shapes)))
    is_small = len(scores) == 2 and 1 < scores[1] < scores[0]
    return is_small and any(choosing[later] and scores in shapes[later] for later in near)


def _rows(shapes: tuple[Shape, ...]) -> int:
    """Of the left matrix of a linear layer with two dimensions."""
    return shapes[0][0] if len(shapes) > 1 and len(shapes[0]) == 2 else 0


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "{layers:,} layers per step run each of {experts} experts on all {tokens} tokens, though a gate "
        "chooses among them: up to {lost_ns} of each {step_ns} step.",
        {
            "layers": round(totals.per_step("layers")),
            "experts": totals.names["experts"],
            "tokens": totals.names["tokens"],
            "lost_ns": totals.per_step("lost_ns"),
            "step_ns": totals.step_ns,
        },
    )


RULE = Rule(
    code="RL-C22",
    claims=ClaimOrder.AVOIDABLE_KERNELS,
    numerics=Numerics.REASSOCIATION,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    figures=("layers", "lost_ns"),
    names=("experts", "tokens"),
    least_share=STEP_SHARE,
)
