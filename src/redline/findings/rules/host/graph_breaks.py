"""RL-H10: compiled code is broken into many graphs, with Python between them."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import Kind
from redline.trace import schema


def match(analysis: RankAnalysis) -> RuleMatch | None:
    """After a break the rest of a function runs as a compiled function of its own, called from inside the first one.

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
    figures = {"breaks": float(breaks), "between_ns": float(between.length_ns)}
    claim = analysis.idle_after(between | _entering_and_leaving(analysis, graphs))
    return RuleMatch(claim=claim, figures=figures, names=_reasons(analysis))


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


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "torch.compile breaks the graph {breaks:,} times per step; the Python code between the graphs "
        "takes {between_ns} on the host, and the device loses {lost_ns}.",
        {
            "breaks": round(totals.per_step("breaks")),
            "between_ns": totals.per_step("between_ns"),
            "lost_ns": totals.alone_ns,
        },
    )
    if totals.names["reason"]:
        yield Evidence("The commonest reason: {reason}", {"reason": totals.names["reason"]})
    if totals.names["place"]:
        yield Evidence("Most often after a break, Python goes on at {place}.", {"place": totals.names["place"]})


def fix(totals: MatchTotals) -> Evidence | None:
    if not totals.names["place"]:
        return None
    return Evidence(
        "Move what cannot be compiled at {place} out of the compiled function, then forbid breaks: "
        "torch.compile(..., fullgraph=True).",
        {"place": totals.names["place"]},
    )


RULE = Rule(
    code="RL-H10",
    claims=ClaimOrder.AVOIDABLE_KERNELS,
    numerics=Numerics.REASSOCIATION,
    grade=Grade.MEASURED,
    match=match,
    explain=explain,
    fix=fix,
    figures=("breaks", "between_ns"),
    names=("reason", "place"),
)
