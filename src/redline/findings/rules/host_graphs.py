"""Graphs of torch.compile that break or are compiled again, and graphs that are captured."""

import numpy as np

from redline.findings.evidence import Bearing, Evidence, Grade
from redline.findings.rule import ClaimOrder, MatchTotals, RuleMatch, alone, rule, says, whole
from redline.ledger.accounts import IDLE
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import CALL_KINDS, Kind
from redline.trace import schema


def _fix_graph_breaks(totals: MatchTotals) -> Evidence | None:
    if not totals.names["place"]:
        return None
    return Evidence(
        "Move what cannot be compiled at {place} out of the compiled function, then forbid breaks: "
        "torch.compile(..., fullgraph=True).",
        {"place": totals.names["place"]},
    )


@rule("RL-H10", ClaimOrder.AVOIDABLE_KERNELS, Numerics.REASSOCIATION, Grade.MEASURED, fix=_fix_graph_breaks)
@says(
    "torch.compile breaks the graph {breaks:,} times per step; the Python code between the graphs "
    "takes {between_ns} on the host, and the device loses {lost_ns}.",
    lost_ns=alone,
)
@says("The commonest reason: {reason}", when="reason")
@says("Most often after a break, Python goes on at {place}.", when="place")
def graph_breaks(analysis: RankAnalysis) -> RuleMatch | None:
    """Compiled code is broken into many graphs, with Python between them.

    After a break the rest of a function runs as a compiled function of its own, called from inside the first one.

    Functions that were compiled apart from each other follow one another and are not in it.
    """
    spans = analysis.timeline.spans
    calls = analysis.rows_named(schema.is_compiled_call, Kind.OPERATOR)
    calls = calls[analysis.in_host_steps.contains(spans.start_ns[calls])]
    broken, breaks = _broken(analysis, calls)
    if not breaks:
        return None
    graphs = analysis.rows_named(schema.is_compiled_graph, Kind.OPERATOR, Kind.ANNOTATION)
    running = Intervals.union_of(spans.start_ns[graphs], spans.end_ns[graphs])
    if not len(running & broken):  # an old version that does not mark its graphs: nothing tells Python from them
        return None
    between = broken - running
    claim = analysis.idle_after(between | _entering_and_leaving(analysis, graphs))
    return RuleMatch(claim, breaks=breaks, between_ns=between.length_ns, **_reasons(analysis))


def _entering_and_leaving(analysis: RankAnalysis, graphs: I64) -> Intervals:
    """On a CPU, the time of each graph before its first operator and after its last: each has it, forward and backward.

    On a GPU graphs launch kernels without operators, so that nothing tells the two apart.
    """
    spans = analysis.timeline.spans
    operators = spans.rows_of(Kind.OPERATOR)
    children = operators[np.isin(spans.parent[operators], graphs)]
    if analysis.on_gpu or not len(children):
        return Intervals.empty()
    parent = spans.parent[children]
    known, first = np.unique(parent, return_index=True)  # spans are in order of start
    last_ns = spans.start_ns.copy()
    np.maximum.at(last_ns, parent, spans.end_ns[children])
    entering = Intervals.union_of(spans.start_ns[known], spans.start_ns[children[first]])
    return entering | Intervals.union_of(np.minimum(last_ns, spans.end_ns)[known], spans.end_ns[known])


def _reasons(analysis: RankAnalysis) -> dict[str, str]:
    """The commonest reason that torch.compile gave, and where the function goes on; "" where that is not known."""
    compiled = analysis.timeline.evidence.facts.compile
    breaks, places = (compiled.breaks, compiled.places) if compiled is not None else ((), ())
    return {"reason": breaks[0][0] if breaks else "", "place": places[0][0] if places else ""}


def _broken(analysis: RankAnalysis, calls: I64) -> tuple[Intervals, int]:
    """When compiled functions ran that another one is inside of, and how many were inside of one."""
    spans = analysis.timeline.spans
    time, breaks = Intervals.empty(), 0
    for lane in np.unique(spans.lane[calls]).tolist():
        here = calls[spans.lane[calls] == lane]
        start_ns, reach_ns = spans.start_ns[here], np.maximum.accumulate(spans.end_ns[here])
        inner = np.append(False, start_ns[1:] < reach_ns[:-1])
        outer = np.flatnonzero(~inner & np.append(inner[1:], False))
        time |= Intervals.union_of(start_ns[outer], spans.end_ns[here[outer]])
        breaks += int(inner.sum())
    return time, breaks


def _fix_recompilation(totals: MatchTotals) -> Evidence | None:
    """By the commonest guard: a size of a tensor is marked as dynamic, a number is passed as a tensor."""
    function, _, guard = totals.names["reason"].partition(": ")
    if "size mismatch at index" in guard:
        return Evidence(
            "Mark the size that varies in {function} before the call: torch._dynamo.mark_dynamic(tensor, dimension). "
            "This one: {guard}",
            {"function": function, "guard": guard},
        )
    if " == " in guard:
        return Evidence(
            "Keep the number that {function} is compiled for out of it, or pass it as a tensor. This one: {guard}",
            {"function": function, "guard": guard},
        )
    return None


@rule("RL-H11", ClaimOrder.MOMENTS, Numerics.REASSOCIATION, Grade.MEASURED, fix=_fix_recompilation)
@says(
    "torch.compile recompiles {compilations:,} x after the first of {steps:,} recorded steps, which "
    "takes {compiling_ns} per step; the device loses {lost_ns}.",
    compilations=whole("compilations"),
    lost_ns=alone,
)
@says("The guard that fails most often, with its function: {reason}", when="reason")
def recompilation(analysis: RankAnalysis) -> RuleMatch | None:
    """Torch.compile compiles again while the job is running.

    Compilation in the first recorded step alone may be the warm-up; where later ones compile too, it counts.
    """
    ledger = analysis.ledger
    compiling = analysis.compiling & analysis.in_steps
    later = compiling & Intervals.union_of(ledger.start_ns[1:], ledger.end_ns[1:])
    if not len(later):
        return None
    compiled = analysis.timeline.evidence.facts.compile
    return RuleMatch(
        analysis.idle_after(compiling),
        compilations=len(later),
        compiling_ns=compiling.length_ns,
        reason=compiled.recompiles[0][0] if compiled is not None and compiled.recompiles else "",
    )


@rule("RL-H27", ClaimOrder.MOMENTS, Numerics.BITWISE, Grade.DOCUMENTED, least_share=0.05)
@says(
    "{captures:,} graphs are captured, for {capturing_ns} of {step_ns}: what is launched meanwhile is recorded and "
    "does not run, so the device is idle for {idle_ns}.",
    captures=whole("captures"),
    idle_ns=alone,
)
@says(
    "Graphs are captured once, when a job starts: this says nothing about the steps that replay them.",
    bearing=Bearing.VOIDS,
)
def graph_capture(analysis: RankAnalysis) -> RuleMatch | None:
    """Graphs are captured: what is launched meanwhile is recorded, and does not run.

    Idle time from the beginning of each capture to its end, or to that of the window.
    """
    spans, (_, end_ns) = analysis.timeline.spans, analysis.activity.window_ns
    begin = analysis.rows_named(schema.is_capture, *CALL_KINDS)
    if not len(begin):
        return None
    ends_ns = np.sort(spans.end_ns[analysis.rows_named(schema.ends_capture, *CALL_KINDS)])
    begins_ns = spans.start_ns[begin]
    until_ns = np.append(ends_ns, end_ns)[np.searchsorted(ends_ns, begins_ns)]
    capturing = Intervals.union_of(begins_ns, np.maximum(until_ns, begins_ns))
    return RuleMatch(
        analysis.idle_in(*IDLE) & capturing, captures=len(begin), capturing_ns=(capturing & analysis.in_steps).length_ns
    )
