"""RL-B02: passes over so few samples that reading weights and starting operators takes longer than computing."""

from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.model_calls import steady_growth
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.findings.savings import FLOPS_PER_BYTE, work_that_stays
from redline.ledger.rank.distinct import distinct
from redline.ledger.rank.host_phases import Phase
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.phases import PhaseKind
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.roofline.sizes import shapes_of
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import NONE, Kind
from redline.trace import schema

FEW_ROWS = 2 * FLOPS_PER_BYTE
"""Of a layer's input, all samples and positions together: a weight of four bytes is used in two FLOPs for each row, so
that with fewer rows a core waits for the weights."""
SHARE = 0.5  # of the time in layers, that such few rows take
LEAST_SHARE = 0.1  # of the step
LOOPS = 2  # calls of layers to each parameter that gets a gradient: the model runs several times in a pass
FLAT_LAYER = "aten::addmm"  # a layer that makes samples and positions one size, as Conv1D of transformers does
GROWING_CALLS = 3  # two lengths in a row may be chance


def match(analysis: RankAnalysis) -> RuleMatch | None:
    """On a CPU; RL-C06 says it of GPUs, whose roofs are known. A stage of a pipeline needs its micro-batches."""
    if analysis.on_gpu or len(analysis.rows_named(schema.is_point_to_point, Kind.COMMUNICATION)):
        return None
    samples, rows, time_ns = _layers(analysis)
    few = (rows > 0) & (rows <= FEW_ROWS)
    if not time_ns.sum() or time_ns[few].sum() < SHARE * time_ns.sum():
        return None
    passes = len(analysis.passes.backward) / max(len(analysis.host_steps[0]), 1)
    is_one_by_one = time_ns[few & (samples == 1)].sum() >= SHARE * time_ns.sum()
    if passes >= 2:
        claim = _later_passes(analysis)
    elif is_one_by_one and (_runs_repeatedly(analysis, len(rows)) if passes else _answers(analysis, rows[few])):
        claim = _model_time(analysis)
    else:
        return None
    figures = {
        "passes": passes,
        "rows": float(np.median(rows[few])),
        "samples": float(np.median(samples[few])),
        "one_by_one": float(is_one_by_one and passes < 2),
    }
    return RuleMatch(claim=claim - work_that_stays(analysis), figures=figures)


def _runs_repeatedly(analysis: RankAnalysis, calls: int) -> bool:
    """Whether one backward pass goes through a loop that calls the same layers for one sample after the other."""
    parameters = len(analysis.rows_named(schema.accumulates_gradient, Kind.OPERATOR))
    return 0 < LOOPS * parameters <= calls


def _answers(analysis: RankAnalysis, rows: I64) -> bool:
    """Whether requests are computed one by one: what is no text, texts as a whole, or a new text after single tokens.

    A text that grows is RL-C16.
    """
    is_text = rows > 1
    if steady_growth(rows[is_text], GROWING_CALLS):
        return False
    if not is_text.any():
        return not len(analysis.rows_named(_is_of_text, Kind.OPERATOR))
    return bool(is_text.all()) or bool((is_text[1:] & ~is_text[:-1]).any())


def _is_of_text(operator_name: str) -> bool:
    return schema.is_embedding(operator_name) or schema.is_attention(operator_name) or schema.is_softmax(operator_name)


def _layers(analysis: RankAnalysis) -> tuple[I64, I64, I64]:
    """Of each call of a linear layer with known shapes: samples, rows, and the time that it takes."""
    timeline, operators, parent = analysis.timeline, analysis.timeline.operators, analysis.timeline.spans.parent
    is_layer = matching(timeline, operators.row, schema.is_linear)
    if not len(analysis.passes.backward):  # whose nodes call products too
        inside = matching(timeline, parent[operators.row], schema.is_linear) & (parent[operators.row] != NONE)
        is_layer |= matching(timeline, operators.row, lambda name: name == FLAT_LAYER) & ~inside
    chosen = np.flatnonzero(is_layer & (operators.shapes >= 0))
    samples_of = _samples_by_rows(analysis)
    keys, which = distinct(operators.shapes[chosen])
    found = [_batch(shapes_of(timeline.text(shapes)), samples_of) for shapes in keys[0].tolist()]
    sizes = np.array(found, np.int64).reshape(-1, 2)[which]
    return sizes[:, 0], sizes[:, 1], timeline.spans.dur_ns[operators.row[chosen]]


def _samples_by_rows(analysis: RankAnalysis) -> dict[int, int]:
    """How many samples so many rows are, by the tokens that are looked up; the most, where several sizes fit."""
    timeline, operators = analysis.timeline, analysis.timeline.operators
    chosen = operators.shapes[matching(timeline, operators.row, schema.is_embedding) & (operators.shapes >= 0)]
    samples: dict[int, int] = {}
    for text in np.unique(chosen).tolist():
        indices = shapes_of(timeline.text(text))[1:2]
        if indices and len(indices[0]) == 2:
            rows = prod(indices[0])
            samples[rows] = max(samples.get(rows, 0), indices[0][0])
    return samples


def _batch(shapes: Sequence[Sequence[int]], samples_of: Mapping[int, int]) -> tuple[int, int]:
    """Samples and rows of a layer's input; (0, 0) where they are not known."""
    if len(shapes) > 1 and len(shapes[0]) > 1:
        return shapes[0][0], prod(shapes[0][:-1])
    if len(shapes) > 1 and [len(shape) for shape in shapes[:3]] in ([1, 2], [1, 2, 0], [1, 2, 1]):
        return 1, 1  # a vector, the weights, and maybe a bias
    if len(shapes) > 2 and len(shapes[1]) == 2:  # a bias comes first, and samples and positions are one size
        return samples_of.get(shapes[1][0], 0), shapes[1][0]
    return 0, 0


def _later_passes(analysis: RankAnalysis) -> Intervals:
    """Forward and backward time of each step after its first backward pass: one larger pass takes at least as long as
    the first."""
    time = _model_time(analysis)
    passes, (start_ns, end_ns) = analysis.passes.backward, analysis.host_steps
    first = np.searchsorted(passes.start, start_ns)
    has_pass = first < np.searchsorted(passes.start, end_ns)
    over_ns = passes.end[first[has_pass]]
    return time & Intervals.union_of(over_ns, np.maximum(end_ns[has_pass], over_ns))


def _model_time(analysis: RankAnalysis) -> Intervals:
    kinds = PhaseKind.DEVICE, PhaseKind.HOST
    return analysis.phases.time(Phase.FORWARD, *kinds) | analysis.phases.time(Phase.BACKWARD, *kinds)


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    ranks = max(totals.ranks, 1)
    values = {
        "rows": round(totals.figures["rows"] / ranks),
        "samples": round(totals.figures["samples"] / ranks),
        "passes": round(totals.figures["passes"] / ranks),
        "step_ns": totals.step_ns,
    }
    if totals.figures["passes"] and totals.figures["one_by_one"]:
        yield Evidence(
            "The model is called for one sample after the other: in each {step_ns} step its layers see {rows:,} rows "
            "of a single sample at a time, and one backward pass goes through all of these calls.",
            values,
        )
    elif totals.figures["passes"]:
        yield Evidence(
            "Each {step_ns} step accumulates the gradients of {passes:,} micro-batches, whose layers see {rows:,} rows "
            "at a time: reading weights and starting operators takes longer than computing.",
            values,
        )
    else:
        yield Evidence(
            "Requests are computed one by one: each {step_ns} step has a batch of {samples:,}, whose layers see "
            "{rows:,} rows.",
            values,
        )


RULE = Rule(
    code="RL-B02",
    claims=ClaimOrder.LAUNCHES,
    numerics=Numerics.REASSOCIATION,
    grade=Grade.MEASURED,
    match=match,
    explain=explain,
    figures=("passes", "rows", "samples", "one_by_one"),
    least_share=LEAST_SHARE,
)
