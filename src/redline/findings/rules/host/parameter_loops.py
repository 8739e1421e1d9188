"""RL-H26: a Python loop updates one parameter after the other, outside of any optimizer of torch."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.optimizer_work import launched_during, outermost
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.ledger.rank.host_phases import Phase
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import Kind
from redline.trace import schema

PER_PARAMETER = 3  # operators: clipping by the norm takes two, which is no loop of the user's own
FEWEST = 40  # operators to a loop, as of an optimizer
LEAST_SHARE = 0.03  # of the step
READ = 0.5  # of the parameters: whoever reads a number of each looks at them, and updates nothing


def match(analysis: RankAnalysis) -> RuleMatch | None:
    """Loops after a backward pass: an optimizer that is written by hand, or an average of the weights."""
    parameters = _parameters(analysis)
    if not parameters:
        return None
    by_hand = not len(analysis.passes.optimizer)
    loops = _loops(analysis, parameters, by_hand=by_hand)
    if not len(loops):
        return None
    operators = analysis.timeline.spans.rows_of(Kind.OPERATOR)
    inside = outermost(analysis, operators[loops.contains(analysis.timeline.spans.start_ns[operators])])
    optimizer = analysis.phases.host.when(Phase.OPTIMIZER)
    figures = {
        "operators": float(len(inside)),
        "parameters": float(parameters),
        "host_ns": float(loops.length_ns),
        "by_hand": float(by_hand and (loops & optimizer).length_ns > 0),
    }
    kernels = launched_during(analysis, loops)
    return RuleMatch(claim=analysis.busy_with(kernels) | analysis.idle_after(loops), figures=figures)


def _parameters(analysis: RankAnalysis) -> int:
    """That get a gradient in a backward pass."""
    nodes = analysis.rows_named(schema.accumulates_gradient, Kind.OPERATOR)
    return round(len(nodes) / max(len(analysis.passes.backward), 1))


def _loops(analysis: RankAnalysis, parameters: int, *, by_hand: bool) -> Intervals:
    """Stretches that update many parameters and compute nothing else, until their last update."""
    timeline, host = analysis.timeline, analysis.phases.host
    outer = outermost(analysis, timeline.spans.rows_of(Kind.OPERATOR))
    start_ns, end_ns = timeline.spans.start_ns[outer], timeline.spans.end_ns[outer]
    updates, reads, layers = (
        matching(timeline, outer, is_meant)
        for is_meant in (schema.is_elementwise_update, schema.reads_scalar, schema.is_layer_operator)
    )
    marked = analysis.rows_named(schema.is_optimizer_region, Kind.ANNOTATION)
    time = (host.when(Phase.OPTIMIZER) | host.when(Phase.BETWEEN)) - _time_of(analysis, marked)
    found: list[tuple[int, int]] = []
    for from_ns, to_ns in zip(time.start.tolist(), time.end.tolist(), strict=True):
        here = slice(*np.searchsorted(start_ns, (from_ns, to_ns)).tolist())
        many = int(updates[here].sum()) >= max(FEWEST, PER_PARAMETER * parameters)
        looks = int(reads[here].sum()) >= READ * parameters and not by_hand
        if many and not looks and not layers[here].any():
            found.append((from_ns, int(end_ns[here][updates[here]].max())))
    edges = np.array(found, np.int64).reshape(-1, 2)
    return Intervals.union_of(edges[:, 0], edges[:, 1])


def _time_of(analysis: RankAnalysis, rows: I64) -> Intervals:
    spans = analysis.timeline.spans
    return Intervals.union_of(spans.start_ns[rows], spans.end_ns[rows])


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    values = {
        "parameters": round(totals.figures["parameters"] / max(totals.ranks, 1)),
        "operators": round(totals.per_step("operators")),
        "host_ns": totals.per_step("host_ns"),
        "step_ns": totals.step_ns,
    }
    if totals.figures["by_hand"]:
        yield Evidence(
            "The script updates its {parameters:,} parameters itself, without torch.optim: {operators:,} operators per "
            "step, each on a single tensor, take {host_ns} of each {step_ns} step.",
            values,
        )
    else:
        yield Evidence(
            "Outside the optimizer, a loop over {parameters:,} parameters runs {operators:,} operators per step, each "
            "on a single tensor; it takes {host_ns} of each {step_ns} step.",
            values,
        )


RULE = Rule(
    code="RL-H26",
    claims=ClaimOrder.AVOIDABLE_KERNELS,
    numerics=Numerics.REASSOCIATION,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    figures=("operators", "parameters", "host_ns", "by_hand"),
    least_share=LEAST_SHARE,
)
