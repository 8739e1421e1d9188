"""The fix of a finding as changes of a rank that can be replayed."""

from collections.abc import Callable, Collection
from dataclasses import replace

import numpy as np

from redline.ledger.rank.activity import loader_time, working_lanes
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.ledger.rank.waits import Cause
from redline.replay.changes import Change, SpanChange, Target, TimeChange
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64, grouped
from redline.timeline.timeline import CALL_KINDS, Kind
from redline.trace import schema

WhatIf = Callable[[RankAnalysis, Intervals], tuple[Change, ...]]
"""Changes on a rank for the time that a rule claims there."""


def claimed_time_gone(analysis: RankAnalysis, claim: Intervals) -> tuple[Change, ...]:
    """Device work is as much shorter as is claimed of it; where the device was idle, the host's time goes."""
    rows, saved_ns = _saved(analysis, claim)
    host = claim - analysis.activity.busy if analysis.on_gpu else claim
    return (
        SpanChange(rank=analysis.timeline.rank, device_rows=rows, saved_ns=saved_ns, host=_on_hosts(analysis, host)),
    )


def loading_gone(analysis: RankAnalysis, claim: Intervals) -> tuple[Change, ...]:
    """The data loader always has the next batch."""
    return (TimeChange(target=Target.LOADER, factor=0.0),)


def launching_gone(analysis: RankAnalysis, claim: Intervals) -> tuple[Change, ...]:
    """Launching takes the host no time: a graph is launched as one. Pauses and loading stay."""
    loading = Intervals.empty()
    for time in loader_time(analysis.timeline).values():
        loading |= time
    host = analysis.in_host_steps - analysis.pauses - loading
    return (SpanChange(rank=analysis.timeline.rank, host=_on_hosts(analysis, host)),)


def waiting_gone(*causes: Cause) -> WhatIf:
    """The host goes on instead of waiting for the device, and what is claimed of the device is gone."""

    def changes(analysis: RankAnalysis, claim: Intervals) -> tuple[Change, ...]:
        return (_waits_gone(analysis, claim, _calls_of(analysis, causes)),)

    return changes


def synchronising_gone(analysis: RankAnalysis, claim: Intervals) -> tuple[Change, ...]:
    """The program does not call for a synchronisation: the host neither waits nor takes the time of the call."""
    calls = _calls_of(analysis, (Cause.SYNC,))
    return (replace(_waits_gone(analysis, claim, calls), host=_time_of(analysis, calls)),)


def reading_gone(analysis: RankAnalysis, claim: Intervals) -> tuple[Change, ...]:
    """Numbers are not read: the host neither waits for them nor takes the time of the operators that read them."""
    calls, spans = _calls_of(analysis, (Cause.READ,)), analysis.timeline.spans
    readers = analysis.rows_named(schema.reads_scalar, Kind.OPERATOR)
    begun_ns = np.sort(spans.start_ns[calls])
    begun = np.searchsorted(begun_ns, spans.start_ns[readers]), np.searchsorted(begun_ns, spans.end_ns[readers])
    readers = readers[begun[1] > begun[0]]  # the others read numbers that are on the host
    return (replace(_waits_gone(analysis, claim, calls), host=_time_of(analysis, readers)),)


def transfer_gone(analysis: RankAnalysis, claim: Intervals, waiting: Intervals) -> tuple[Change, ...]:
    """All of an exchange is shorter by the share that is claimed of its exposed transfer, hidden or not.

    Waiting for the last rank goes with its own cause.
    """
    communication = analysis.activity.communication
    rows, which = np.unique(communication.row.astype(np.int64), return_inverse=True)
    spans = analysis.timeline.spans
    start_ns, end_ns = spans.start_ns[rows], spans.end_ns[rows]
    exposed_ns, claimed_ns = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    for time, amounts_ns in ((analysis.activity.communicating - waiting, exposed_ns), (claim - waiting, claimed_ns)):
        np.add.at(amounts_ns, which, time.overlap_with(communication.start_ns, communication.end_ns))
    share = np.minimum(claimed_ns / np.maximum(exposed_ns, 1), 1.0)
    saved_ns = np.round((end_ns - start_ns) * share).astype(np.int64)
    return (SpanChange(rank=analysis.timeline.rank, device_rows=rows[saved_ns > 0], saved_ns=saved_ns[saved_ns > 0]),)


def _waits_gone(analysis: RankAnalysis, claim: Intervals, calls: I64) -> SpanChange:
    rows, saved_ns = _saved(analysis, claim)
    return SpanChange(rank=analysis.timeline.rank, device_rows=rows, saved_ns=saved_ns, waits=calls)


def _time_of(analysis: RankAnalysis, rows: I64) -> dict[int, Intervals]:
    """When these spans ran, by thread."""
    spans = analysis.timeline.spans
    return {
        lane: Intervals.union_of(spans.start_ns[rows[here]], spans.end_ns[rows[here]])
        for lane, here in grouped(spans.lane[rows])
    }


def _calls_of(analysis: RankAnalysis, causes: Collection[Cause]) -> I64:
    """The calls that began these waits, and those that waited in them: a copy is followed by a synchronisation."""
    waits = analysis.waits.take(np.isin(analysis.waits.cause, tuple(causes)))
    syncs = analysis.rows_named(schema.is_synchronisation, *CALL_KINDS)
    inside = waits.time.contains(analysis.timeline.spans.start_ns[syncs])
    calls: I64 = np.union1d(waits.call, syncs[inside])
    return calls


def _saved(analysis: RankAnalysis, claim: Intervals) -> tuple[I64, I64]:
    """Rows of device work, and how much is claimed of the time that each owns."""
    activity = analysis.activity
    if not analysis.on_gpu:  # its operators are on its threads; of exchanges, the time inside them
        pieces = [activity.communication]
    else:
        pieces = [activity.compute, activity.copies, activity.communication]
    row = np.concatenate([owned.row for owned in pieces]).astype(np.int64)
    amounts = [claim.overlap_with(owned.start_ns, owned.end_ns) for owned in pieces]
    rows, which = np.unique(row, return_inverse=True)
    saved_ns = np.zeros(len(rows), np.int64)
    np.add.at(saved_ns, which, np.concatenate(amounts))
    return rows[saved_ns > 0], saved_ns[saved_ns > 0]


def _on_hosts(analysis: RankAnalysis, time: Intervals) -> dict[int, Intervals]:
    """The same time on every thread that works."""
    timeline = analysis.timeline
    if not len(time):
        return {}
    return {lane: time for lane in working_lanes(timeline).tolist() if not timeline.lanes[lane].on_device}
