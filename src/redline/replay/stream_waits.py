"""Which work of one stream waited for which of another: as recorded, else by the order of calls, else by time."""

from collections.abc import Iterator

import numpy as np

from redline.ledger.rank.activity import Mask
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.waits import LONG_LAUNCH_NS, QUEUE_DEPTH
from redline.replay.recorded_order import RecordedWork
from redline.timeline.table import I64, grouped
from redline.timeline.timeline import CALL_KINDS, NONE, Kind, Timeline, Waiter
from redline.trace import schema
from redline.values import dataclass

COINCIDENCE_NS = (
    10_000  # a start this soon after an end on another stream is put down to it, if nothing else explains it
)
_LOOK_BACK = 8  # ends before a start that are looked at
_LIKELY_STREAMS = 2  # an event is recorded on one of the streams that were launched on last
SKEW_NS = 1_000  # clocks of host and device differ by up to this
_QUEUE_RETURN_NS = 50_000  # and returned this soon after there was one
_OWN_SYNC_NS, _OWN_COPY_NS, _OWN_LAUNCH_NS = 4_000, 6_000, 10_000  # what the call takes if it need not wait
_ASKED_NS = 50_000  # a thread that asks whether an event has happened goes on this soon after it
_FAR_NS = 1 << 62


@dataclass(frozen=True, kw_only=True)
class StreamWaits:
    """Pairs of pieces of work: `later` began after `earlier` had ended, because its stream waited for it."""

    later: I64  # places in the recorded work
    earlier: I64
    recorded: int = 0  # how many waits of streams the profiler recorded
    inferred: int = 0  # how many were told by the order of calls


def waits_between_streams(timeline: Timeline, work: RecordedWork) -> StreamWaits:
    """As the profiler recorded them; where it recorded none, by the order of calls."""
    recorded = recorded_waits(timeline, work)
    return recorded if recorded.recorded else inferred_waits(timeline, work)


# --- recorded ---------------------------------------------------------------------------------------------------------


def recorded_waits(timeline: Timeline, work: RecordedWork) -> StreamWaits:
    """The first work that a stream was given after a wait, and the last that the other stream had before the event."""
    spans, waits = timeline.spans, timeline.waits.take(timeline.waits.waiter == Waiter.STREAM_FOR_EVENT)
    if not len(waits):
        return _no_waits()
    place = np.searchsorted(timeline.device_work.row, waits.row)
    call = timeline.device_work.launch[place]
    asked_ns = np.where(call != NONE, spans.start_ns[call], NONE)
    event_ns = np.where(waits.record != NONE, spans.start_ns[waits.record], asked_ns)
    launched_ns = work.launched_ns(timeline)
    by_stream = work.in_order_of_launch(timeline)
    number_of = {(timeline.lanes[lane].device, timeline.lanes[lane].stream): lane for lane in by_stream}
    later, earlier = [], []
    rows = zip(*(column.tolist() for column in (spans.lane[waits.row], waits.stream, asked_ns, event_ns)), strict=True)
    for lane, stream, at_ns, until_ns in rows:
        mine = by_stream.get(lane)
        theirs = by_stream.get(number_of.get((timeline.lanes[lane].device, stream), NONE))
        if mine is None or theirs is None or at_ns == NONE:
            continue
        following = int(np.searchsorted(launched_ns[mine], at_ns, side="right"))
        before = int(np.searchsorted(launched_ns[theirs], until_ns, side="right")) - 1
        if following < len(mine) and before >= 0 and mine is not theirs:
            later.append(int(mine[following]))
            earlier.append(int(theirs[before]))
    return _fitting(work, np.array(later, np.int64), np.array(earlier, np.int64), recorded=len(waits))


# --- by the order of calls --------------------------------------------------------------------------------------------


def inferred_waits(timeline: Timeline, work: RecordedWork) -> StreamWaits:
    """A call that has a stream wait is for the work that its thread launches next, and for what had been launched
    before the last event that it recorded. Of several such calls in a row each may be for a stream of its own.

        record, wait, wait, launch on 20, launch on 21       both wait for the stream that was recorded
    """
    spans = timeline.spans
    calls = spans.rows_of(*CALL_KINDS)
    waits = calls[matching(timeline, calls, schema.makes_stream_wait)]
    if not len(waits):
        return _no_waits()
    records = calls[matching(timeline, calls, schema.records_event)]
    launched_ns = work.launched_ns(timeline)
    launched = np.flatnonzero(work.is_launched)
    launched = launched[np.argsort(launched_ns[launched], kind="stable")]
    by_thread = {lane: launched[here] for lane, here in grouped(spans.lane[work.launch[launched]])}
    records_of = {lane: spans.start_ns[records[here]] for lane, here in grouped(spans.lane[records])}
    by_stream = work.in_order_of_launch(timeline)
    later: list[int] = []
    earlier: list[int] = []
    for lane, here in grouped(spans.lane[waits]):
        if lane in by_thread:
            thread = _Thread(work, launched_ns, by_thread[lane], records_of.get(lane, np.empty(0, np.int64)), by_stream)
            for waiting, waited_for in thread.pairs(spans.start_ns[waits[here]]):
                later.append(waiting)
                earlier.append(waited_for)
    return _fitting(work, np.array(later, np.int64), np.array(earlier, np.int64), inferred=len(waits))


class _Thread:
    """What a thread launched and recorded, in order."""

    def __init__(
        self, work: RecordedWork, launched_ns: I64, launched: I64, recorded_ns: I64, by_stream: dict[int, I64]
    ) -> None:
        self._launched, self._at_ns, self._recorded_ns = launched, launched_ns[launched], recorded_ns
        self._stream = work.lane[launched]
        self._of_stream = {lane: (pieces, launched_ns[pieces]) for lane, pieces in by_stream.items()}

    def pairs(self, waits_ns: I64) -> Iterator[tuple[int, int]]:
        """Later and earlier pieces, for each row of waits between two launches."""
        following = np.searchsorted(self._at_ns, waits_ns, side="right")
        recorded = np.searchsorted(self._recorded_ns, waits_ns, side="left") - 1
        rows = list(grouped(following))
        until = [row for row, _ in rows[1:]] + [len(self._launched)]
        for (first, here), last in zip(rows, until, strict=True):
            events_ns = {
                int(self._recorded_ns[at]) if at >= 0 else int(waits_ns[h])
                for h, at in zip(here.tolist(), recorded[here].tolist(), strict=True)
            }
            for place in self._first_of_streams(first, last, len(here)):
                for event_ns in events_ns:
                    yield from self._launched_before(place, event_ns)

    def _first_of_streams(self, first: int, last: int, most: int) -> list[int]:
        """Places of the first launch on each stream from one launch to another, on so many streams."""
        _, places = np.unique(self._stream[first:last], return_index=True)
        return [first + place for place in sorted(places.tolist())[:most]]

    def _launched_before(self, place: int, event_ns: int) -> Iterator[tuple[int, int]]:
        """The last work before the event on the two other streams that were launched on last: on one of them it was
        recorded."""
        own = int(self._stream[place])
        last = []
        for lane, (pieces, at_ns) in self._of_stream.items():
            at = int(np.searchsorted(at_ns, event_ns, side="right")) - 1
            if lane != own and at >= 0:
                last.append((int(at_ns[at]), int(pieces[at])))
        for _, piece in sorted(last, reverse=True)[:_LIKELY_STREAMS]:
            yield int(self._launched[place]), piece


def _fitting(work: RecordedWork, later: I64, earlier: I64, *, recorded: int = 0, inferred: int = 0) -> StreamWaits:
    """Each pair once. What ended too late was not waited for."""
    fits = work.end_ns[earlier] <= work.start_ns[later] + SKEW_NS
    pairs = np.unique(np.stack([later[fits], earlier[fits]]), axis=1)
    return StreamWaits(later=pairs[0], earlier=pairs[1], recorded=recorded, inferred=inferred)


# --- by time ----------------------------------------------------------------------------------------------------------


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
    return StreamWaits(later=unexplained[told], earlier=earlier[told])


def _no_waits() -> StreamWaits:
    empty = np.empty(0, np.int64)
    return StreamWaits(later=empty, earlier=empty)


@dataclass(frozen=True, kw_only=True)
class BlockedCalls:
    """Calls that waited, each once; and for each thing that a call waited for, which."""

    call: I64  # places in `RecordedWork.calls`, ascending
    own_ns: I64  # what the call takes without waiting
    waiting: I64  # places in `call`; one or more for each
    work: I64  # places in the recorded work
    from_start: Mask  # whether it waited for the start of that work: a place in the queue became free
    binding: Mask  # whether the wait was still on when the call began


def blocked_calls(timeline: Timeline, work: RecordedWork) -> BlockedCalls:
    start_ns, end_ns = work.call_start_ns, work.call_end_ns
    parts = (
        [_after_exchange(work)]
        if work.on_cpu
        else [
            _synchronised(timeline, work),
            _waited_for_event(timeline, work),
            _copied(timeline, work),
            _queued(timeline, work),
        ]
    )
    call, piece, from_start, own_cap = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    lasts = end_ns[call] > start_ns[call]
    call, piece, from_start, own_cap = call[lasts], piece[lasts], from_start[lasts], own_cap[lasts]
    until_ns = np.where(from_start, work.start_ns[piece], work.end_ns[piece])
    distinct, waiting = np.unique(call, return_inverse=True)
    latest = np.full(len(distinct), -_FAR_NS)
    np.maximum.at(latest, waiting, until_ns)
    own_ns = end_ns[distinct] - start_ns[distinct]
    held_up = latest > start_ns[distinct]
    cap = np.zeros(len(distinct), np.int64)
    np.maximum.at(cap, waiting, own_cap)
    return BlockedCalls(
        call=distinct,
        own_ns=np.where(held_up, np.minimum(own_ns, cap), own_ns),
        waiting=waiting.astype(np.int64),
        work=piece,
        from_start=from_start,
        binding=until_ns > start_ns[call],
    )


_Found = tuple[I64, I64, Mask, I64]  # call, piece of work, whether from its start, what the call takes by itself


def _synchronised(timeline: Timeline, work: RecordedWork) -> _Found:
    """For each synchronising call what ended last of the work launched before; of every stream if it waits for all."""
    calls = np.flatnonzero(work.waits & ~matching(timeline, work.calls, schema.waits_for_event))
    start_ns, end_ns = work.call_start_ns[calls], work.call_end_ns[calls]
    everything = matching(timeline, work.calls[calls], schema.waits_for_every_stream)
    launched_ns = work.launched_ns(timeline)
    last = []
    for pieces_of_stream in work.in_order_of_launch(timeline).values():
        at = np.searchsorted(launched_ns[pieces_of_stream], start_ns, side="left") - 1
        piece = np.append(pieces_of_stream, NONE)[at]
        last.append(np.where((piece != NONE) & (work.end_ns[piece] <= end_ns + SKEW_NS), piece, NONE))
    if not last or not len(calls):
        return _nothing()
    pieces = np.stack(last)
    ended_ns = np.where(pieces != NONE, work.end_ns[pieces], -_FAR_NS)
    is_last = np.zeros(pieces.shape, bool)
    is_last[ended_ns.argmax(axis=0), np.arange(len(calls))] = True
    _, column = kept = np.nonzero((pieces != NONE) & (is_last | everything))
    return calls[column], pieces[kept], np.zeros(len(column), bool), np.full(len(column), _OWN_SYNC_NS)


def _after_exchange(work: RecordedWork) -> _Found:
    """On a CPU: pauses, with the exchange that ended last in each. What a thread did after it, it does in any case."""
    calls = np.flatnonzero(work.waits)
    order = np.argsort(work.end_ns, kind="stable")
    if not len(order):
        return _nothing()
    piece = order[np.searchsorted(work.end_ns[order], work.call_end_ns[calls], side="right") - 1]
    return calls, piece, np.zeros(len(calls), bool), work.call_end_ns[calls] - work.end_ns[piece]


def _waited_for_event(timeline: Timeline, work: RecordedWork) -> _Found:
    """For each call that waited for an event, or row of questions for one, the work that had ended last when it was
    over, of what had been launched before: the event may be in the middle of what a stream has to do."""
    calls = np.flatnonzero(work.asks | (work.waits & matching(timeline, work.calls, schema.waits_for_event)))
    start_ns, end_ns = work.call_start_ns[calls], work.call_end_ns[calls]
    launched_ns = work.launched_ns(timeline)
    latest = np.full(len(calls), NONE)
    ended_ns = np.full(len(calls), -_FAR_NS)
    for places in work.in_order_of_launch(timeline).values():
        pieces = places[np.argsort(work.end_ns[places], kind="stable")]
        at = np.searchsorted(work.end_ns[pieces], end_ns, side="right") - 1
        for back in range(_LOOK_BACK):
            piece = pieces[np.maximum(at - back, 0)]
            fits = (at >= back) & (launched_ns[piece] < start_ns) & (work.end_ns[piece] > ended_ns)
            latest[fits], ended_ns[fits] = piece[fits], work.end_ns[piece[fits]]
    # Questions are asked for other reasons, too: only those were waiting that ended with a piece of work.
    known = (latest != NONE) & (~work.asks[calls] | (ended_ns > np.maximum(start_ns, end_ns - _ASKED_NS)))
    call, piece = calls[known], latest[known]
    return call, piece, np.zeros(len(call), bool), np.full(len(call), _OWN_SYNC_NS)


def _copied(timeline: Timeline, work: RecordedWork) -> _Found:
    """Calls that returned after the last of the copies that they made."""
    copies = np.flatnonzero(work.is_launched & np.isin(timeline.spans.kind[work.row], (Kind.COPY, Kind.SET)))
    done_ns = np.full(len(timeline.spans), -_FAR_NS)
    np.maximum.at(done_ns, work.launch[copies], work.end_ns[copies])
    is_last = work.end_ns[copies] == done_ns[work.launch[copies]]
    waited = timeline.spans.end_ns[work.launch[copies]] >= work.end_ns[copies] - SKEW_NS
    copies = copies[is_last & waited]
    call = np.searchsorted(work.calls, work.launch[copies])
    return call, copies, np.zeros(len(copies), bool), np.full(len(copies), _OWN_COPY_NS)


def _queued(timeline: Timeline, work: RecordedWork) -> _Found:
    """Launches that took long, and returned when the launch that many before them had begun on the device."""
    launched = np.flatnonzero(work.is_launched)
    launched = launched[np.argsort(work.launched_ns(timeline)[launched], kind="stable")]
    later, before = launched[QUEUE_DEPTH:], launched[:-QUEUE_DEPTH]
    start_ns, end_ns = timeline.spans.start_ns[work.launch[later]], timeline.spans.end_ns[work.launch[later]]
    freed_ns = work.start_ns[before]
    blocked = (end_ns - start_ns > LONG_LAUNCH_NS) & (start_ns <= freed_ns)
    blocked &= (freed_ns <= end_ns) & (end_ns <= freed_ns + _QUEUE_RETURN_NS)
    call = np.searchsorted(work.calls, work.launch[later[blocked]])
    _, first = np.unique(call, return_index=True)
    return call[first], before[blocked][first], np.ones(len(first), bool), np.full(len(first), _OWN_LAUNCH_NS)


def _nothing() -> _Found:
    empty = np.empty(0, np.int64)
    return empty, empty, np.empty(0, bool), empty
