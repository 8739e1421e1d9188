"""RL-D02: the worker processes of the data loader do not keep up, or start anew with every epoch."""

from collections.abc import Iterator

import numpy as np

from redline.findings.claim_order import ClaimOrder
from redline.findings.evidence import Evidence, Grade
from redline.findings.fixes import loader_fix
from redline.findings.kinds_of_work import WorkKind, kinds_in
from redline.findings.rule import MatchTotals, Rule, RuleMatch
from redline.findings.rules.input.no_workers import NAMES, WAITING_SHARE, loading, loading_values
from redline.findings.what_if import loading_gone
from redline.ledger.rank.host_phases import Phase
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.timeline import Kind
from redline.trace import schema

KIND_SHARE = 0.3  # of the time between two calls of the loader, by samples of the stack; no sample is taken in a fork


def match(analysis: RankAnalysis) -> RuleMatch | None:
    waiting = loading(analysis, schema.is_loader_with_workers)
    if waiting is None:
        return None
    restarts = _restarts(analysis)
    figures = {**waiting.figures, "restarting_ns": float(restarts.length_ns)}
    return RuleMatch(claim=waiting.claim | restarts, figures=figures, names=waiting.names)


def _restarts(analysis: RankAnalysis) -> Intervals:
    """Time between two calls of the loader in which nothing is trained, and Python is in the loader."""
    spans, host = analysis.timeline.spans, analysis.phases.host
    rows = analysis.rows_named(schema.is_loader_with_workers, Kind.ANNOTATION)
    end_ns, start_ns = np.maximum.accumulate(spans.end_ns[rows])[:-1], spans.start_ns[rows][1:]
    training = host.when(Phase.FORWARD) | host.when(Phase.BACKWARD) | host.when(Phase.OPTIMIZER)
    idle = (start_ns > end_ns) & (training.overlap_with(end_ns, np.maximum(start_ns, end_ns)) == 0)
    time = Intervals.union_of(end_ns[idle], start_ns[idle]) & analysis.in_steps
    kinds = kinds_in(analysis.timeline.evidence, time)
    in_loader_ns = kinds.get(WorkKind.INPUT, 0)
    is_restarting = in_loader_ns >= max(KIND_SHARE * time.length_ns, 1) and in_loader_ns == max(kinds.values())
    return time if is_restarting else Intervals.empty()


def explain(totals: MatchTotals) -> Iterator[Evidence]:
    values = loading_values(totals)
    if totals.names["use"] == "training":
        yield Evidence(
            "The training process waits {loading_ns} of each {step_ns} step for its data-loader workers; the "
            "device is idle for {waiting_ns} of that.",
            values,
        )
    else:
        yield Evidence(
            "The process that runs the model waits {loading_ns} of each {step_ns} step for its data-loader workers; "
            "the device is idle for {waiting_ns} of that.",
            values,
        )
    if totals.figures["restarting_ns"]:
        yield Evidence(
            "Another {restarting_ns} of each step goes to starting workers anew, as for every epoch: "
            "persistent_workers=True keeps them.",
            {"restarting_ns": totals.per_step("restarting_ns")},
        )


RULE = Rule(
    code="RL-D02",
    claims=ClaimOrder.MOMENTS,
    numerics=Numerics.BITWISE,
    grade=Grade.DOCUMENTED,
    match=match,
    explain=explain,
    what_if=loading_gone,
    fix=loader_fix,
    figures=("loading_ns", "waiting_ns", "restarting_ns"),
    names=NAMES,
    least_share=WAITING_SHARE,
)
