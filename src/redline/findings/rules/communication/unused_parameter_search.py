"""RL-N20: DDP searches for unused parameters in every step, and finds none."""

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
    """The search, the copies of all outputs that it needs, and what these cost in the backward pass."""
    spans, facts = analysis.timeline.spans, analysis.timeline.evidence.facts
    searches = _in_steps(analysis, analysis.rows_named(schema.is_unused_search, Kind.OPERATOR, Kind.ANNOTATION))
    unused_bytes = [ddp.unused_bytes for ddp in facts.ddp if ddp.unused_bytes is not None]
    if not len(searches) or any(unused_bytes):
        return None
    copies = _in_steps(analysis, analysis.rows_named(schema.is_output_copy, Kind.OPERATOR))
    rows = np.concatenate([searches, copies])
    time = Intervals.union_of(spans.start_ns[rows], spans.end_ns[rows])
    figures = {
        "searches": float(len(searches)),
        "copying_ns": float(spans.dur_ns[copies].sum()),
        "reducing_ns": float(_map_ns(analysis)),
        "is_told": float(bool(unused_bytes)),
    }
    claim = analysis.idle_after(time) | analysis.busy_with(_launched_by(analysis, copies))
    return RuleMatch(claim=claim, figures=figures)


def _in_steps(analysis: RankAnalysis, rows: I64) -> I64:
    return rows[analysis.in_steps.contains(analysis.timeline.spans.start_ns[rows])]


def _launched_by(analysis: RankAnalysis, rows: I64) -> I64:
    if not analysis.on_gpu:
        return np.empty(0, np.int64)
    chosen = np.zeros(len(analysis.timeline.spans), bool)
    chosen[rows] = True
    return analysis.launched_under(chosen)


def _map_ns(analysis: RankAnalysis) -> int:
    """Of the all-reduces of whole numbers inside steps: which parameters are used is one number for each."""
    timeline = analysis.timeline
    communications = timeline.communications
    known = [
        timeline.text(int(collective)) == "all_reduce" and schema.is_whole_number(timeline.text(int(dtype)))
        for collective, dtype in zip(communications.collective, communications.dtype, strict=True)
    ]
    rows = _in_steps(analysis, communications.row[np.array(known, bool)].astype(np.int64))
    return int(timeline.spans.dur_ns[rows].sum())


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    yield Evidence(
        "DDP searches the graph for unused parameters {searches:,} x per step, and copies all outputs of the model for "
        "that, {copying_ns} of each {step_ns} step.",
        {
            "searches": max(round(totals.per_step("searches")), 1),
            "copying_ns": totals.per_step("copying_ns"),
            "step_ns": totals.step_ns,
        },
    )
    if totals.figures["reducing_ns"]:
        yield Evidence(
            "Which parameters are used is all-reduced in each step, for another {reducing_ns}, which is not in the "
            "bound.",
            {"reducing_ns": totals.per_step("reducing_ns")},
        )
    if totals.figures["is_told"]:
        yield Evidence("The search found no unused parameter.")
    else:
        yield Evidence("Whether it finds any was not recorded: if some parameters are unused, the search is needed.")


def fix(totals: MatchTotals) -> Evidence:
    return Evidence("Leave out find_unused_parameters=True: DistributedDataParallel(..., find_unused_parameters=False)")


RULE = Rule(
    code="RL-N20",
    claims=ClaimOrder.DDP_COPIES,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    fix=fix,
    figures=("searches", "copying_ns", "reducing_ns", "is_told"),
    least_share=0.0,
)
