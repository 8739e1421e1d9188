"""Loading batches and copying them to the device."""

from collections.abc import Callable
from typing import Any

import numpy as np

from redline.findings.callers import site_of
from redline.findings.evidence import Evidence, Grade
from redline.findings.fixes import loader_fix, loader_names
from redline.findings.kinds_of_work import WorkKind, kinds_in
from redline.findings.rule import ClaimOrder, MatchTotals, RuleMatch, adds, alone, mean, rule, says, value
from redline.findings.rules.host_waits import copying
from redline.findings.what_if import loading_gone
from redline.ledger.accounts import Account
from redline.ledger.rank.disjoint_work import Owned
from redline.ledger.rank.host_phases import Phase
from redline.ledger.rank.padding import padding_of
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.ledger.rank.waits import Cause
from redline.numerics import Numerics
from redline.timeline.intervals import Intervals
from redline.timeline.timeline import Kind
from redline.trace import schema

WAITING_SHARE = 0.03  # of the step
IDLE_SHARE = 0.5  # of the time in the loader
WAITING: dict[str, Any] = {
    "what_if": loading_gone,
    "fix": loader_fix,
    "least_share": WAITING_SHARE,
    "names": ("use", "target", "dataset", "workers", "free"),
}


def trains(totals: MatchTotals) -> bool:
    return totals.names["use"] == "training"


@rule("RL-D01", ClaimOrder.MOMENTS, Numerics.BITWISE, Grade.MEASURED, **WAITING)
@says(
    "The training process itself loads each batch, {loading_ns} of each {step_ns} step; the device "
    "is idle for {waiting_ns} of that.",
    when=trains,
)
@says(
    "The process that runs the model loads each batch itself, {loading_ns} of each {step_ns} step; the device "
    "is idle for {waiting_ns} of that.",
    unless=trains,
)
def no_workers(analysis: RankAnalysis) -> RuleMatch | None:
    """Batches are loaded in the training process itself."""
    return loading(analysis, schema.is_loader_in_process)


def loading(analysis: RankAnalysis, is_meant: Callable[[str], bool]) -> RuleMatch | None:
    """All of the time in the loader: while the host loads, it launches nothing for later either.

    Of a GPU that mostly computes on meanwhile only what it is idle: its queue was long enough.
    """
    spans = analysis.timeline.spans
    rows = analysis.rows_named(is_meant, Kind.ANNOTATION)
    time = Intervals.union_of(spans.start_ns[rows], spans.end_ns[rows]) & analysis.in_steps
    waiting_ns = int(np.sum(analysis.idle.accounts[Account.INPUT].overlap_with(time.start, time.end)))
    if waiting_ns <= WAITING_SHARE * analysis.steps_ns:
        return None
    claim = time if waiting_ns >= IDLE_SHARE * time.length_ns else time - analysis.activity.busy
    return RuleMatch(claim, loading_ns=time.length_ns, waiting_ns=waiting_ns, **loader_names(analysis))


KIND_SHARE = 0.3  # of the time between two calls of the loader, by samples of the stack; no sample is taken in a fork


@rule("RL-D02", ClaimOrder.MOMENTS, Numerics.BITWISE, Grade.DOCUMENTED, **WAITING)
@says(
    "The training process waits {loading_ns} of each {step_ns} step for its data-loader workers; the "
    "device is idle for {waiting_ns} of that.",
    when=trains,
)
@says(
    "The process that runs the model waits {loading_ns} of each {step_ns} step for its data-loader workers; "
    "the device is idle for {waiting_ns} of that.",
    unless=trains,
)
@says(
    "Another {restarting_ns} of each step goes to starting workers anew, as for every epoch: "
    "persistent_workers=True keeps them.",
    when="restarting_ns",
)
def slow_workers(analysis: RankAnalysis) -> RuleMatch | None:
    """The worker processes of the data loader do not keep up, or start anew with every epoch."""
    waiting = loading(analysis, schema.is_loader_with_workers)
    if waiting is None:
        return None
    restarts = _restarts(analysis)
    return RuleMatch(waiting.claim | restarts, **waiting.figures, restarting_ns=restarts.length_ns, **waiting.names)


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


LARGE_BYTES = 1_000_000


@rule("RL-D03", ClaimOrder.MOMENTS, Numerics.BITWISE, Grade.MEASURED)
@says(
    "{size_bytes} per step is copied to the device at {rate_bytes_per_s} while the host waits: it is "
    "blocked for {blocked_ns}, and the device loses {lost_ns}.",
    rate_bytes_per_s=value(
        lambda totals: totals.figures["size_bytes"] / max(totals.figures["copying_ns"], 1) * 1e9,
        "size_bytes",
        "copying_ns",
    ),
    lost_ns=alone,
)
@adds(site_of)
def pageable_batches(analysis: RankAnalysis) -> RuleMatch | None:
    """Batches are copied to the device from pageable memory, and everything waits for the copy."""
    writes = analysis.waits.take((analysis.waits.cause == Cause.WRITE) & (analysis.waits.bytes > LARGE_BYTES))
    if len(writes) < len(analysis.ledger.start_ns):
        return None
    return copying(analysis, writes)


padding_share = value(
    lambda totals: 1 - totals.figures["length"] / max(totals.figures["padded"], 1), "length", "padded"
)


def _fix_padded_to_maximum(totals: MatchTotals) -> Evidence | None:
    if not totals.figures["by_rows"]:
        return None
    return Evidence("Put rows of similar length into one batch: sort by length, cut into batches, shuffle the batches.")


@rule(
    "RL-C15",
    ClaimOrder.AVOIDABLE_KERNELS,
    Numerics.REASSOCIATION,
    Grade.DOCUMENTED,
    fix=_fix_padded_to_maximum,
    least_share=0.05,
)
@says(
    "Rows of {length:,} positions on average are padded to {padded:,}, the longest of their batch: "
    "{padding_share} of what the model computes is padding.",
    when="by_rows",
    length=mean("length", "batches"),
    padded=mean("padded", "batches"),
    padding_share=padding_share,
)
@says(
    "Batches whose longest row has {length:,} positions on average are padded to {padded:,}: {padding_share} "
    "of what the model computes is padding.",
    unless="by_rows",
    length=mean("length", "batches"),
    padded=mean("padded", "batches"),
    padding_share=padding_share,
)
def padded_to_maximum(analysis: RankAnalysis) -> RuleMatch | None:
    """Batches are padded to one maximum, or hold rows of very different lengths: the model computes padding."""
    padding = padding_of(analysis.timeline)
    if padding is None:
        return None
    claim = _without_padding(analysis, analysis.activity.compute, padding.used)
    claim |= _without_padding(analysis, analysis.activity.copies, padding.used)
    return RuleMatch(
        claim, batches=padding.batches, length=padding.length, padded=padding.padded, by_rows=padding.by_rows
    )


def _without_padding(analysis: RankAnalysis, pieces: Owned, used: float) -> Intervals:
    """The last part of each piece of device work: attention grows with the square of the length, nothing faster."""
    kept_ns = np.ceil(pieces.dur_ns * used**2).astype(np.int64)
    time = Intervals.union_of(pieces.start_ns + kept_ns, pieces.end_ns)
    return (time & analysis.in_steps) - analysis.passes.optimizer
