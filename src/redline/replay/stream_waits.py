"""Which work of one stream waited for which of another: by the order of calls, and where that fails by time."""

from dataclasses import dataclass

import numpy as np

from redline.analysis.rank.name_matching import matching
from redline.replay.blocked_calls import SKEW_NS
from redline.replay.recorded_order import RecordedWork
from redline.timeline.table import I64, grouped
from redline.timeline.timeline import CALL_KINDS, NONE, Timeline
from redline.trace import schema

COINCIDENCE_NS = (
    10_000  # a start this soon after an end on another stream is put down to it, if nothing else explains it
)
_LOOK_BACK = 8  # ends before a start that are looked at


@dataclass(frozen=True, kw_only=True)
class StreamWaits:
    """Pairs of pieces of work: `later` began after `earlier` had ended, because its stream waited for it."""

    later: I64  # places in the recorded work
    earlier: I64
    inferred: int  # how many waits of streams were told by the order of calls


def inferred_waits(timeline: Timeline, work: RecordedWork) -> StreamWaits:
    """A call that has a stream wait is for the work that its thread launches next, and for what had been launched
    before the last event that it recorded, on every other stream. What ended too late for that was not waited for."""
    spans = timeline.spans
    calls = spans.rows_of(*CALL_KINDS)
    waits = calls[matching(timeline, calls, schema.makes_stream_wait)]
    records = calls[matching(timeline, calls, schema.records_event)]
    if not len(waits):
        return _no_waits()
    launched_ns = work.launched_ns(timeline)
    later, recorded_ns = [], []
    launched = np.flatnonzero(work.is_launched)
    by_thread = {
        lane: launched[here[np.argsort(launched_ns[launched[here]], kind="stable")]]
        for lane, here in grouped(spans.lane[work.launch[launched]])
    }
    records_of = {lane: spans.start_ns[records[here]] for lane, here in grouped(spans.lane[records])}
    for lane, here in grouped(spans.lane[waits]):
        sequence = by_thread.get(lane)
        if sequence is None:
            continue
        at_ns = spans.start_ns[waits[here]]
        following = np.searchsorted(launched_ns[sequence], at_ns, side="right")
        chosen = following < len(sequence)
        mine = records_of.get(lane, np.empty(0, np.int64))
        last = np.searchsorted(mine, at_ns, side="left") - 1
        recorded_ns.append(np.where(last >= 0, np.append(mine, 0)[last], at_ns)[chosen])
        later.append(sequence[following[chosen]])
    if not later:
        return _no_waits()
    return _launched_before(timeline, work, np.concatenate(later), np.concatenate(recorded_ns))


def _launched_before(timeline: Timeline, work: RecordedWork, later: I64, recorded_ns: I64) -> StreamWaits:
    """For each waiting piece the last one of every other stream that had been launched before a time."""
    launched_ns = work.launched_ns(timeline)
    pairs = []
    for lane, pieces in work.in_order_of_launch(timeline).items():
        at = np.searchsorted(launched_ns[pieces], recorded_ns, side="right") - 1
        earlier = np.append(pieces, NONE)[at]
        fits = (earlier != NONE) & (work.lane[later] != lane)
        fits &= work.end_ns[earlier] <= work.start_ns[later] + SKEW_NS
        pairs.append(np.stack([later[fits], earlier[fits]]))
    both = np.unique(np.concatenate(pairs, axis=1), axis=1)
    return StreamWaits(later=both[0], earlier=both[1], inferred=len(later))


def coinciding_waits(work: RecordedWork, unexplained: I64) -> StreamWaits:
    """For work whose start nothing explains, what had just ended on another stream: the likeliest reason."""
    order = np.argsort(work.end_ns, kind="stable")
    ended_ns = work.end_ns[order]
    earlier = np.full(len(unexplained), NONE)
    start_ns = work.start_ns[unexplained]
    at = np.searchsorted(ended_ns, start_ns, side="right") - 1
    for back in range(_LOOK_BACK):
        place = at - back
        candidate = order[np.maximum(place, 0)]
        fits = (place >= 0) & (earlier == NONE) & (work.end_ns[candidate] > start_ns - COINCIDENCE_NS)
        fits &= work.lane[candidate] != work.lane[unexplained]
        earlier[fits] = candidate[fits]
    told = earlier != NONE
    return StreamWaits(later=unexplained[told], earlier=earlier[told], inferred=0)


def _no_waits() -> StreamWaits:
    empty = np.empty(0, np.int64)
    return StreamWaits(later=empty, earlier=empty, inferred=0)
