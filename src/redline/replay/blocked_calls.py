"""Calls of the host that returned only when the device had come so far, and what they waited for."""

from dataclasses import dataclass

import numpy as np

from redline.ledger.rank.activity import Mask
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.waits import LONG_LAUNCH_NS, QUEUE_DEPTH
from redline.replay.recorded_order import RecordedWork
from redline.timeline.table import I64
from redline.timeline.timeline import NONE, Kind, Timeline
from redline.trace import schema

SKEW_NS = 1_000  # clocks of host and device differ by up to this
_QUEUE_RETURN_NS = 50_000  # and returned this soon after there was one
_OWN_SYNC_NS, _OWN_COPY_NS, _OWN_LAUNCH_NS = 4_000, 6_000, 10_000  # what the call takes if it need not wait
_ASKED_NS = 50_000  # a thread that asks whether an event has happened goes on this soon after it
_LOOK_BACK = 8  # pieces of work that are looked at
_FAR_NS = 1 << 62


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
