"""When the host was held up by its device, what for, and which idle time that can have caused.

A launching thread that is held up launches nothing meanwhile, so all that it launches later comes later by at most
that long. What it cost is therefore idle time after it began, at most as much as it took, and none after the host next
waits for the device for another reason: there every lead of the host is lost anyway.
"""

from enum import IntEnum

import numpy as np

from redline.ledger.rank.activity import Mask, cut_at
from redline.ledger.rank.name_matching import matching
from redline.timeline.intervals import Intervals
from redline.timeline.nesting import nearest_of
from redline.timeline.table import I64, Table, column, numbers_in
from redline.timeline.timeline import CALL_KINDS, NONE, Kind, Timeline
from redline.trace import schema

QUEUE_DEPTH = 1024  # launches that CUDA keeps in flight before a launch call blocks
LONG_LAUNCH_NS = 100_000  # a launch call that takes longer may have waited for a place in the queue


class Cause(IntEnum):
    """What the host waited for."""

    READ = 1  # a copy from the device
    WRITE = 2  # a copy to the device
    SYNC = 3  # all work of a stream or of the device


class Waits(Table):
    """Calls in which a launching thread waited for its device, in order of start."""

    start_ns: I64 = column(np.int64)
    end_ns: I64 = column(np.int64)
    cause: I64 = column(np.int64)
    call: I64 = column(np.int64)  # row of the call that began it
    copy: I64 = column(np.int64)  # row of the copy; NONE for a synchronisation
    operator: I64 = column(np.int64)  # row of the innermost operator around it, or NONE
    bytes: I64 = column(np.int64)  # of the copy

    @property
    def time(self) -> Intervals:
        return Intervals.union_of(self.start_ns, self.end_ns)


def waits_of(timeline: Timeline) -> Waits:
    syncs = _synchronisations(timeline)
    copies, copy_end_ns = _blocking_copies(timeline, syncs)
    work, spans = timeline.device_work, timeline.spans
    of_copy = np.isin(spans.parent[syncs], work.operator[copies])
    alone = syncs[~of_copy]
    read = matching(timeline, work.row[copies], schema.is_read_from_device)
    columns = {
        "start_ns": (spans.start_ns[work.launch[copies]], spans.start_ns[alone]),
        "end_ns": (copy_end_ns, spans.end_ns[alone]),
        "cause": (np.where(read | _is_scalar(timeline, copies), Cause.READ, Cause.WRITE), _filled(alone, Cause.SYNC)),
        "call": (work.launch[copies], alone),
        "copy": (work.row[copies], _filled(alone, NONE)),
        "operator": (work.operator[copies], _operators_around(timeline, alone)),
        "bytes": (work.bytes[copies], _filled(alone, 0)),
    }
    together = {name: np.concatenate(parts).astype(np.int64) for name, parts in columns.items()}
    return Waits(**together).take(np.argsort(together["start_ns"], kind="stable"))


def queue_full(timeline: Timeline) -> Intervals:
    """Calls in which a launch waited for a place in the queue: it took long, and as many as it holds were ahead."""
    work, spans = timeline.device_work, timeline.spans
    launched = np.flatnonzero(work.launch != NONE)
    launched = launched[np.argsort(spans.start_ns[work.launch[launched]], kind="stable")]
    calls, earlier = work.launch[launched[QUEUE_DEPTH:]], work.row[launched[:-QUEUE_DEPTH]]
    begins_ns = spans.start_ns[calls]
    full = (spans.dur_ns[calls] > LONG_LAUNCH_NS) & (spans.start_ns[earlier] > begins_ns)
    return Intervals.union_of(begins_ns[full], spans.end_ns[calls[full]])


def idle_after(idle: Intervals, held_up: Intervals, drains_ns: I64) -> Intervals:
    """Idle time that holding up the host can have caused.

    From each start on, idle time counts until as much of it has passed as the host was held up, or until the next of
    `drains_ns`, when the host begins to wait for the device for another reason.

        idle      [0, 4) [10, 14) [20, 24)
        held up   [2, 7)                     ->   [2, 4) [10, 13)
    """
    start_ns, end_ns, _ = cut_at(drains_ns, held_up.start, held_up.end)
    if not len(idle) or not len(start_ns):
        return Intervals.empty()
    passed = np.cumsum(idle.end - idle.start)
    segment = np.searchsorted(drains_ns, start_ns, side="right")
    held_ns = np.cumsum(end_ns - start_ns)
    apart_ns = segment * int(passed[-1] + held_ns[-1] + 1)  # so that nothing is carried over a drain
    from_ns = _passed_before(idle, passed, start_ns) + apart_ns
    until_ns = np.maximum.accumulate(from_ns - (held_ns - (end_ns - start_ns))) + held_ns - apart_ns
    at = np.minimum(np.searchsorted(passed, until_ns), len(idle) - 1)
    last_ns = np.minimum(idle.end[at] - (passed[at] - until_ns), idle.end[-1])
    next_ns = np.append(drains_ns, np.iinfo(np.int64).max)[segment]
    return idle & Intervals.union_of(start_ns, np.maximum(np.minimum(last_ns, next_ns), start_ns))


def _passed_before(idle: Intervals, passed: I64, points: I64) -> I64:
    """How much of the idle time lies before each point."""
    begun = np.searchsorted(idle.start, points, side="right")
    last = np.maximum(begun - 1, 0)
    return np.where(begun > 0, passed[last] - np.maximum(idle.end[last] - points, 0), 0)


# --- which calls waited -----------------------------------------------------------------------------------------------


def _synchronisations(timeline: Timeline) -> I64:
    """Calls of launching threads that wait for a stream or the device."""
    spans, launch = timeline.spans, timeline.device_work.launch
    calls = spans.rows_of(*CALL_KINDS)
    calls = calls[matching(timeline, calls, schema.is_synchronisation)]
    return calls[np.isin(spans.lane[calls], numbers_in(spans.lane[launch[launch != NONE]]))]


def _blocking_copies(timeline: Timeline, syncs: I64) -> tuple[I64, I64]:
    """Copies, as places in the table of device work, that the host waited for, and until when it did."""
    spans, work = timeline.spans, timeline.device_work
    copies = np.flatnonzero((spans.kind[work.row] == Kind.COPY) & (work.launch != NONE))
    between = matching(timeline, work.row[copies], schema.is_copy_with_host) | _is_scalar(timeline, copies)
    copies = copies[between]
    operator = work.operator[copies]
    done_ns = np.zeros(len(spans) + 1, np.int64)  # for each operator: when the last wait right under it was over
    np.maximum.at(done_ns, spans.parent[syncs], spans.end_ns[syncs])
    done_ns[NONE] = 0
    end_ns = np.maximum(spans.end_ns[work.launch[copies]], done_ns[operator])
    waited = (end_ns >= spans.end_ns[work.row[copies]]) | matching(timeline, work.row[copies], schema.is_pageable_copy)
    return copies[waited], end_ns[waited]


def _is_scalar(timeline: Timeline, copies: I64) -> Mask:
    """Copies under an operator that hands one number to Python: some runtimes record them as between devices."""
    operator = timeline.device_work.operator[copies]
    is_scalar = np.zeros(len(copies), bool)
    known = np.flatnonzero(operator != NONE)
    is_scalar[known] = matching(timeline, operator[known], schema.reads_scalar)
    return is_scalar


def _operators_around(timeline: Timeline, rows: I64) -> I64:
    """The innermost operator around each row, or NONE."""
    spans = timeline.spans
    return nearest_of(spans.kind == Kind.OPERATOR, spans.parent, spans.parent[rows])


def _filled(rows: I64, value: int) -> I64:
    return np.full(len(rows), value, np.int64)
