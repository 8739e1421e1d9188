"""What cannot be true in a trace: impossible or contradictory times, repeats; dropped, mended or noted, and counted."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from redline.timeline.problems import ProblemLog, Reason
from redline.timeline.table import I32, I64, Column, Table, grouped, numbers_in
from redline.timeline.timeline import NONE, Kind, MemoryMarks, Waiter
from redline.trace import schema
from redline.trace.columns import RawColumns, TableType
from redline.trace.times import NO_TIME

HOUR_NS = 3_600_000_000_000
_UNFINISHED_NS = -1000  # writers put a duration of -1 us for "not ended yet"
_OVERLAP_FLOOR_NS = 1_000  # less is the clock's grain
_OVERRUN_FLOOR_NS = 50_000  # dependent launches make neighbours overlap by a few us: no damage
_OVERRUN_KERNELS = 3  # a kernel that lasts over this many later ones of its stream did not last that long
SIDE_TABLES = ("operators", "calls", "device_work", "waits", "event_records", "python_calls", "descriptions")


def sane(raw: RawColumns, log: ProblemLog) -> RawColumns:
    """The columns in time order, with only what can have happened."""
    raw = replace(raw, spans=replace(raw.spans, dur_ns=_closed(raw, log)))
    plausible = _plausible(raw, log)
    order = _time_order(raw.spans.start_ns, raw.spans.dur_ns)
    if not plausible.all():
        order = order[plausible[order]]
    ordered = reindexed(raw, order, in_place=True)
    repeated = _repeated(ordered)
    if repeated.any():
        log.add(Reason.DUPLICATED_EVENT, int(repeated.sum()), example=_example(ordered, repeated))
        ordered = reindexed(ordered, np.flatnonzero(~repeated))
    spans = replace(ordered.spans, dur_ns=_cut_overruns(ordered, log))
    return replace(ordered, spans=spans, memory=_memory_near(ordered))


def reindexed(raw: RawColumns, rows: I64, *, in_place: bool = False) -> RawColumns:
    """Only these rows of the spans, in this order, with the side tables following.

    With `in_place` the columns given are overwritten where possible: a large trace does not fit in memory twice.
    """
    place = np.full(len(raw.spans), -1, np.int32)
    place[rows] = np.arange(len(rows), dtype=np.int32)
    moved = {name: _moved(getattr(raw, name), place, in_place=in_place) for name in SIDE_TABLES}
    return replace(raw, spans=_permuted(raw.spans, rows, in_place=in_place), **moved)


def _moved(table: TableType, place: I32, *, in_place: bool) -> TableType:
    row = place[table.columns()["row"]]
    order = np.argsort(row, kind="stable")
    order = order[np.searchsorted(row[order], 0) :]
    return replace(_permuted(table, order, in_place=in_place), row=row[order])  # all have it


def _permuted(table: TableType, rows: I64, *, in_place: bool) -> TableType:
    if not in_place or len(rows) < len(table):
        return table.take(rows)
    for array in table.columns().values():
        array[:] = array[rows]
    return table


def _closed(raw: RawColumns, log: ProblemLog) -> I64:
    """Durations, where an unfinished event lasts to the end of the trace."""
    spans = raw.spans
    unfinished = (spans.dur_ns == NO_TIME) | (spans.dur_ns == _UNFINISHED_NS)
    if not unfinished.any():
        return spans.dur_ns
    log.add(Reason.UNFINISHED_EVENT, int(unfinished.sum()), example=_example(raw, unfinished))
    own = ~_foreign(spans.start_ns)
    finished = own & ~unfinished & (spans.dur_ns >= 0) & (spans.dur_ns < HOUR_NS)
    ends = spans.end_ns[finished] if finished.any() else spans.start_ns[own]
    return np.where(unfinished, np.maximum(ends.max() - spans.start_ns, 0), spans.dur_ns)


def _plausible(raw: RawColumns, log: ProblemLog) -> Column:
    """Which spans have times that can be."""
    spans = raw.spans
    if not len(spans):
        return np.empty(0, bool)
    foreign = _foreign(spans.start_ns)
    own = spans.start_ns[~foreign]
    longest_ns = max(HOUR_NS, 2 * (int(own.max()) - int(own.min())))
    verdicts = {
        Reason.FOREIGN_CLOCK: foreign,
        Reason.NEGATIVE_DURATION: ~foreign & (spans.dur_ns < 0),
        Reason.IMPOSSIBLE_DURATION: ~foreign & (spans.dur_ns > longest_ns),
    }
    for reason, verdict in verdicts.items():
        if verdict.any():
            log.add(reason, int(verdict.sum()), example=_example(raw, verdict))
    implausible: Column = np.logical_or.reduce(list(verdicts.values()))
    return ~implausible


def _foreign(start_ns: I64) -> Column:
    """Spans more than an hour away from most others: another clock stamped them."""
    ordered = np.sort(start_ns)
    breaks = np.flatnonzero(np.diff(ordered) > HOUR_NS) + 1
    if not breaks.size:
        return np.zeros(len(start_ns), bool)
    edges = np.concatenate([[0], breaks, [len(ordered)]])
    largest = int(np.argmax(np.diff(edges)))
    first, last = ordered[edges[largest]], ordered[edges[largest + 1] - 1]
    outside: Column = (start_ns < first) | (start_ns > last)
    return outside


def _memory_near(raw: RawColumns) -> MemoryMarks:
    """Allocator marks of the time of the spans; like spans, some may carry another clock."""
    starts, at_ns = raw.spans.start_ns, raw.memory.at_ns
    if not len(starts):
        return raw.memory
    return raw.memory.take((at_ns > starts[0] - HOUR_NS) & (at_ns < starts[-1] + HOUR_NS))


def _time_order(start_ns: I64, dur_ns: I64) -> I64:
    """By start, longest first where starts agree, else as written. Only ties are looked at twice: it saves memory."""
    order = np.argsort(start_ns, kind="stable")
    starts = start_ns[order]
    tied = np.zeros(len(starts), bool)
    tied[1:] = starts[1:] == starts[:-1]
    tied[:-1] |= tied[1:]
    places = np.flatnonzero(tied)
    rows = order[places]
    order[places] = rows[np.lexsort((-dur_ns[rows], starts[places]))]
    return order


def _repeated(raw: RawColumns) -> Column:
    """Spans that equal an earlier one in time, lane, name and every id."""
    spans = raw.spans
    repeated = np.zeros(len(spans), bool)
    same = (spans.start_ns[1:] == spans.start_ns[:-1]) & (spans.dur_ns[1:] == spans.dur_ns[:-1])
    suspect = np.zeros(len(spans), bool)
    suspect[1:] |= same
    suspect[:-1] |= same
    rows = np.flatnonzero(suspect)
    if not rows.size:
        return repeated
    identity = _identity(raw, rows)
    keys = np.stack([spans.start_ns[rows], spans.dur_ns[rows], spans.lane[rows], spans.name[rows], *identity])
    order = np.lexsort(keys[::-1])
    equal = (keys[:, order[1:]] == keys[:, order[:-1]]).all(axis=0)
    repeated[rows[order[1:][equal]]] = True
    return repeated


def _identity(raw: RawColumns, rows: I64) -> list[I64]:
    """Every id that the profiler gave these spans, as columns."""
    columns = []
    for table, name in (
        (raw.operators, "external_id"),
        (raw.calls, "correlation"),
        (raw.device_work, "correlation"),
        (raw.device_work, "external_id"),
        (raw.python_calls, "id"),
    ):
        columns.append(scattered(table, name, rows))
    return columns


def scattered(table: Table, name: str, rows: I64) -> I64:
    """A side table's column at these rows of the spans, -1 where it has none."""
    have = table.columns()["row"]
    values = np.full(len(rows), -1, np.int64)
    if len(have):
        at = np.minimum(np.searchsorted(have, rows), len(have) - 1)
        is_same = have[at] == rows
        values[is_same] = table.columns()[name][at[is_same]]
    return values


def _cut_overruns(raw: RawColumns, log: ProblemLog) -> I64:
    """Durations, where no kernel lasts on and on over later kernels of its own stream.

    ROCm has written such durations. Kernels may overlap on a stream in honesty (dependent launches, branches of a
    graph), so only one that outlasts several later kernels by far is cut, and the floor is absolute: a threshold
    relative to the typical kernel would flag healthy dense streams.
    """
    spans = raw.spans
    dur_ns = spans.dur_ns
    rows = spans.rows_of(Kind.KERNEL)
    rows = rows[scattered(raw.device_work, "graph_node", rows) == NONE]
    rows = rows[np.argsort(spans.lane[rows], kind="stable")]
    if len(rows) <= _OVERRUN_KERNELS:
        return dur_ns
    start, lane = spans.start_ns[rows], spans.lane[rows]
    end = start + dur_ns[rows]
    far = np.maximum(start[_OVERRUN_KERNELS:], start[1 : 1 - _OVERRUN_KERNELS] + _OVERRUN_FLOOR_NS)
    overlong = (lane[_OVERRUN_KERNELS:] == lane[:-_OVERRUN_KERNELS]) & (end[:-_OVERRUN_KERNELS] > far)
    cut = np.flatnonzero(overlong)
    if cut.size:
        log.add(Reason.OVERLONG_KERNEL, len(cut), example=_example_of(raw, rows[cut]))
        dur_ns = dur_ns.copy()
        dur_ns[rows[cut]] = start[cut + 1] - start[cut]
    overlap = (lane[1:] == lane[:-1]) & (start[:-1] + dur_ns[rows[:-1]] > start[1:] + _OVERLAP_FLOOR_NS)
    log.add(Reason.STREAM_OVERLAP, int(overlap.sum()), example=_example_of(raw, rows[:-1][overlap]))
    return dur_ns


def _example(raw: RawColumns, mask: Column) -> str:
    return _example_of(raw, np.flatnonzero(mask))


def _example_of(raw: RawColumns, rows: I64) -> str:
    return raw.texts[int(raw.spans.name[rows[0]])] if len(rows) else ""


def note_contradictions(raw: RawColumns, log: ProblemLog) -> None:
    """Note what does not fit together, though each event alone is sound. The columns are in time order.

    The rules are those that torch has checked its own traces by since 2.13 (`torch.profiler._trace_validator`), for
    every device that writes such waits. That kernels begin before their launch is noted where launches are linked.
    """
    if len(raw.waits):
        _note_waits(raw, log)
        log.add(Reason.SYNC_DURING_KERNEL, _syncs_during_kernels(raw))
    log.add(Reason.UNDESCRIBED_COLLECTIVE, _undescribed(raw))
    shared = _shared_sequences(raw)
    log.add(Reason.SHARED_SEQUENCE, len(shared), example=f"number {shared[0]}" if len(shared) else "")


def _note_waits(raw: RawColumns, log: ProblemLog) -> None:
    waits, calls = raw.waits, raw.calls
    by_stream = waits.waiter == Waiter.STREAM_FOR_EVENT
    for_event = by_stream | (waits.waiter == Waiter.HOST_FOR_EVENT)
    log.add(Reason.WAIT_WITHOUT_RECORD, int((for_event & (waits.record_correlation < 0)).sum()))
    recorded = _named(raw, calls.row, schema.records_event)
    ids = np.concatenate([calls.correlation[recorded], calls.external_id[recorded]])
    starts = np.tile(raw.spans.start_ns[calls.row[recorded]], 2)
    order = np.lexsort((starts, ids))
    ids, starts = np.append(ids[order], np.iinfo(np.int64).max), np.append(starts[order], 0)
    asked = by_stream & (waits.record_correlation >= 0)
    wanted = waits.record_correlation[asked]
    at = np.searchsorted(ids, wanted)
    seen = (ids[at] == wanted) & (starts[at] <= raw.spans.start_ns[waits.row[asked]])
    log.add(Reason.WAIT_FOR_UNSEEN_RECORD, int((~seen).sum()))


def _syncs_during_kernels(raw: RawColumns) -> int:
    spans = raw.spans
    syncs = raw.waits.row[raw.waits.waiter == Waiter.HOST_FOR_STREAM]
    kernels = spans.rows_of(Kind.KERNEL, Kind.COMMUNICATION)
    kernels = kernels[np.isin(spans.lane[kernels], spans.lane[syncs])]
    of_lane = {lane: kernels[places] for lane, places in grouped(spans.lane[kernels])}
    count = 0
    for lane, places in grouped(spans.lane[syncs]):
        here = of_lane.get(lane)
        if here is not None:
            last_end_ns = np.maximum.accumulate(spans.end_ns[here])
            before = np.searchsorted(spans.start_ns[here], spans.start_ns[syncs[places]], "left")
            until_ns = np.append(np.iinfo(np.int64).min, last_end_ns)[before]
            count += int((until_ns > spans.start_ns[syncs[places]]).sum())
    return count


def _named(raw: RawColumns, rows: Column, is_meant: Callable[[str], bool]) -> Column:
    """Which of these rows have a name that is meant; each distinct name is looked at once."""
    names = raw.spans.name[rows]
    meant = [name for name in numbers_in(names) if is_meant(raw.texts[name])]
    return np.isin(names, np.array(meant, np.int32))


def _undescribed(raw: RawColumns) -> int:
    """Calls of collectives without name, type, sizes or group size, which their kernels do not tell either."""
    calls = raw.operators.row[_named(raw, raw.operators.row, schema.is_collective_call)]
    told = raw.descriptions
    whole = (told.collective != NONE) & (told.in_elements != NONE) & (told.out_elements != NONE)
    whole &= (told.group_size != NONE) & np.array([bool(raw.texts[dtype]) for dtype in told.dtype.tolist()], bool)
    described = int(np.isin(calls, told.row[whole]).sum())
    kernels = int((~np.isin(told.row[whole], raw.operators.row)).sum())  # a merged trace tells it of these alone
    return max(len(calls) - max(described, kernels), 0)


def _shared_sequences(raw: RawColumns) -> I64:
    """Sequence numbers of autograd that nodes of the backward pass with different names have."""
    operators = raw.operators
    node = _named(raw, operators.row, schema.is_backward_engine) & (operators.sequence > 0)
    names, sequence = raw.spans.name[operators.row[node]], operators.sequence[node]
    order = np.lexsort((names, sequence))
    is_other = (np.diff(sequence[order]) == 0) & (np.diff(names[order]) != 0)
    return np.unique(sequence[order[1:][is_other]]).astype(np.int64)
