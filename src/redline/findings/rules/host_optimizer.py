"""Optimizers and averages of weights that work on one parameter after the other in Python."""

import numpy as np

from redline.findings.evidence import Grade
from redline.findings.fixes import optimizer_fix
from redline.findings.optimizer_work import cost, launched_during, optimizer_steps, outermost
from redline.findings.rule import ClaimOrder, RuleMatch, alone, mean, rule, says, value
from redline.ledger.rank.host_phases import Phase
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.timeline import Kind
from redline.trace import schema

MANY_KERNELS = 40  # or operators, to a call: lists of tensors take about ten, whatever their number


@rule("RL-H07", ClaimOrder.AVOIDABLE_KERNELS, Numerics.REASSOCIATION, Grade.MEASURED, fix=optimizer_fix)
@says(
    "{optimizer} runs {operators:,} operators per call, each on a single parameter, and takes {host_ns} of "
    "each {step_ns} step.",
    when="operators",
    operators=mean("operators", "calls"),
)
@says(
    "{optimizer} launches {kernels:,} kernels per call, each for a single parameter, and takes "
    "{host_ns} of host time per step; the device loses up to {lost_ns}.",
    unless="operators",
    kernels=mean("kernels", "calls"),
    lost_ns=alone,
)
def unfused_optimizer(analysis: RankAnalysis) -> RuleMatch | None:
    """The optimizer updates one parameter after the other, with kernels or operators of its own for each."""
    steps = optimizer_steps(analysis)
    if steps is None or "fused" in steps.name.lower():  # those of libraries run no operators of torch
        return None
    timeline = analysis.timeline
    if analysis.on_gpu:
        single, of_lists = steps.kernels, matching(timeline, steps.kernels, schema.is_multi_tensor)
    else:
        single = steps.outer[matching(timeline, steps.outer, schema.is_elementwise_update)]
        of_lists = matching(timeline, steps.outer, schema.is_foreach_or_fused)
    if len(single) < MANY_KERNELS * steps.calls or of_lists.any():
        return None
    return RuleMatch(
        cost(analysis, steps),
        kernels=len(steps.kernels),
        operators=0.0 if analysis.on_gpu else float(len(single)),
        calls=steps.calls,
        host_ns=steps.time.length_ns,
        optimizer=steps.name,
    )


MANY_READS = 20  # to a call
LEAST_SHARE = 0.01  # of the steps


@rule(
    "RL-H08",
    ClaimOrder.AVOIDABLE_KERNELS,
    Numerics.REASSOCIATION,
    Grade.MEASURED,
    fix=optimizer_fix,
    least_share=LEAST_SHARE,
)
@says(
    "{optimizer} reads {reads:,} CPU scalars one by one in each call, which takes {host_ns} of host "
    "time per step; the device is idle for {idle_ns} because of it.",
    reads=value(lambda totals: round(totals.figures["reads"] / max(totals.figures["calls"], 1)), "reads", "calls"),
)
def optimizer_counters(analysis: RankAnalysis) -> RuleMatch | None:
    """The optimizer works on lists of tensors but reads a counter of every parameter in Python.

    The numbers are on the host: what they cost is Python, and no wait for the device.
    """
    steps = optimizer_steps(analysis)
    if steps is None:
        return None
    operators = steps.operators
    if matching(analysis.timeline, steps.outer, schema.is_fused).any():  # it takes the counters as they are
        return None
    reads = int(matching(analysis.timeline, operators, schema.is_item).sum())
    if reads < MANY_READS * steps.calls or not matching(analysis.timeline, operators, schema.is_foreach).any():
        return None
    idle = analysis.idle_after(steps.time) & analysis.in_steps
    if idle.length_ns < LEAST_SHARE * analysis.steps_ns:
        return None
    return RuleMatch(
        cost(analysis, steps),
        reads=reads,
        calls=steps.calls,
        host_ns=steps.time.length_ns,
        idle_ns=idle.length_ns,
        optimizer=steps.name,
    )


PER_PARAMETER = 3  # operators: clipping by the norm takes two, which is no loop of the user's own
FEWEST = 40  # operators to a loop, as of an optimizer
READ = 0.5  # of the parameters: whoever reads a number of each looks at them, and updates nothing


@rule("RL-H26", ClaimOrder.AVOIDABLE_KERNELS, Numerics.REASSOCIATION, Grade.DOCUMENTED, least_share=0.03)
@says(
    "The script updates its {parameters:,} parameters itself, without torch.optim: {operators:,} operators per "
    "step, each on a single tensor, take {host_ns} of each {step_ns} step.",
    when="by_hand",
    parameters=value(lambda totals: round(totals.figures["parameters"] / max(totals.ranks, 1)), "parameters"),
)
@says(
    "Outside the optimizer, a loop over {parameters:,} parameters runs {operators:,} operators per step, each "
    "on a single tensor; it takes {host_ns} of each {step_ns} step.",
    unless="by_hand",
    parameters=value(lambda totals: round(totals.figures["parameters"] / max(totals.ranks, 1)), "parameters"),
)
def parameter_loops(analysis: RankAnalysis) -> RuleMatch | None:
    """A Python loop updates one parameter after the other, outside of any optimizer of torch.

    Loops after a backward pass: an optimizer that is written by hand, or an average of the weights.
    """
    with_gradient = analysis.rows_named(schema.accumulates_gradient, Kind.OPERATOR)
    parameters = round(len(with_gradient) / max(len(analysis.passes.backward), 1))
    if not parameters:
        return None
    by_hand = not len(analysis.passes.optimizer)
    loops = _loops(analysis, parameters, by_hand=by_hand)
    if not len(loops):
        return None
    operators = analysis.timeline.spans.rows_of(Kind.OPERATOR)
    inside = outermost(analysis, operators[loops.contains(analysis.timeline.spans.start_ns[operators])])
    optimizer = analysis.phases.host.when(Phase.OPTIMIZER)
    kernels = launched_during(analysis, loops)
    return RuleMatch(
        analysis.busy_with(kernels) | analysis.idle_after(loops),
        operators=len(inside),
        parameters=parameters,
        host_ns=loops.length_ns,
        by_hand=by_hand and (loops & optimizer).length_ns > 0,
    )


def _loops(analysis: RankAnalysis, parameters: int, *, by_hand: bool) -> Intervals:
    """Stretches that update many parameters and compute nothing else, until their last update."""
    timeline, host = analysis.timeline, analysis.phases.host
    outer = outermost(analysis, timeline.spans.rows_of(Kind.OPERATOR))
    start_ns, end_ns = timeline.spans.start_ns[outer], timeline.spans.end_ns[outer]
    updates, reads, layers = (
        matching(timeline, outer, is_meant)
        for is_meant in (schema.is_elementwise_update, schema.reads_scalar, schema.is_layer_operator)
    )
    spans, marked = timeline.spans, analysis.rows_named(schema.is_optimizer_region, Kind.ANNOTATION)
    regions = Intervals.union_of(spans.start_ns[marked], spans.end_ns[marked])
    time = (host.when(Phase.OPTIMIZER) | host.when(Phase.BETWEEN)) - regions
    found: list[tuple[int, int]] = []
    for from_ns, to_ns in zip(time.start.tolist(), time.end.tolist(), strict=True):
        here = slice(*np.searchsorted(start_ns, (from_ns, to_ns)).tolist())
        many = int(updates[here].sum()) >= max(FEWEST, PER_PARAMETER * parameters)
        looks = int(reads[here].sum()) >= READ * parameters and not by_hand
        if many and not looks and not layers[here].any():
            found.append((from_ns, int(end_ns[here][updates[here]].max())))
    edges = np.array(found, np.int64).reshape(-1, 2)
    return Intervals.union_of(edges[:, 0], edges[:, 1])
