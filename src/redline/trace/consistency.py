"""What does not fit together in a trace, though each event alone is sound: noted, and left as it is.

The rules are those that torch has checked its own traces by since 2.13 (`torch.profiler._trace_validator`), for every
device that writes such waits. That kernels begin before their launch is noted where launches are linked.
"""

from collections.abc import Callable

import numpy as np

from redline.timeline.problems import ProblemLog, Reason
from redline.timeline.table import I64, Column, grouped, numbers_in
from redline.timeline.timeline import NONE, Kind, Waiter
from redline.trace import schema
from redline.trace.columns import RawColumns


def note_contradictions(raw: RawColumns, log: ProblemLog) -> None:
    """Note them; the columns are those of one rank, in time order."""
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
    """Calls of collectives without name, type, sizes or group size."""
    calls = raw.operators.row[_named(raw, raw.operators.row, schema.is_collective_call)]
    told = raw.descriptions
    whole = (told.collective != NONE) & (told.in_elements != NONE) & (told.out_elements != NONE)
    whole &= (told.group_size != NONE) & np.array([bool(raw.texts[dtype]) for dtype in told.dtype.tolist()], bool)
    return int((~np.isin(calls, told.row[whole])).sum())


def _shared_sequences(raw: RawColumns) -> I64:
    """Sequence numbers of autograd that nodes of the backward pass with different names have."""
    operators = raw.operators
    node = _named(raw, operators.row, schema.is_backward_engine) & (operators.sequence > 0)
    names, sequence = raw.spans.name[operators.row[node]], operators.sequence[node]
    order = np.lexsort((names, sequence))
    is_other = (np.diff(sequence[order]) == 0) & (np.diff(names[order]) != 0)
    return np.unique(sequence[order[1:][is_other]]).astype(np.int64)
