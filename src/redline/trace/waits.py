"""Recorded waits and events of one rank: the calls that recorded the events, and on which streams."""

from dataclasses import replace

import numpy as np

from redline.timeline.table import I32, Column
from redline.timeline.timeline import NONE, DeviceWork, EventRecords, RecordedWaits
from redline.trace.columns import RawColumns
from redline.trace.sanity import scattered


def linked_waits(raw: RawColumns, work: DeviceWork) -> RecordedWaits:
    """The waits with the rows of the calls that recorded their events."""
    waits = _without_later_records(raw.waits, work)
    if not len(waits):
        return waits
    asked = scattered(work, "launch", waits.row.astype(np.int64))
    until_ns = raw.spans.start_ns[np.where(asked != NONE, asked, waits.row)]
    return replace(waits, record=_calls_before(raw, waits.record_correlation, until_ns))


def _without_later_records(waits: RecordedWaits, work: DeviceWork) -> RecordedWaits:
    """Events are used again, and Kineto has named the record that came after a wait: then nothing tells the right one.

    Correlation ids are given in the order of the calls.
    """
    later = waits.record_correlation > scattered(work, "correlation", waits.row.astype(np.int64))
    if not later.any():
        return waits
    return replace(
        waits,
        stream=np.where(later, NONE, waits.stream).astype(np.int32),
        record_correlation=np.where(later, NONE, waits.record_correlation),
    )


def _calls_before(raw: RawColumns, correlation: Column, until_ns: Column) -> I32:
    """The last call with each correlation that began before this time: what is recorded later is not waited for."""
    calls = raw.calls
    call_start_ns = raw.spans.start_ns[calls.row]
    # One order by id and start for both; before each wait then stands the call that is meant.
    ids = np.concatenate([calls.correlation, correlation])
    is_wait = np.arange(len(ids)) >= len(calls)
    order = np.lexsort((is_wait, np.concatenate([call_start_ns, until_ns]), ids))
    last = np.maximum.accumulate(np.where(is_wait[order], NONE, np.arange(len(order))))
    before = np.empty(len(order), np.int64)
    before[order] = np.where(last >= 0, order[last], NONE)
    before = before[len(calls) :]
    match = (before != NONE) & (correlation > 0)
    match[match] = ids[before[match]] == correlation[match]
    return np.where(match, np.append(calls.row, NONE)[np.where(match, before, len(calls))], NONE).astype(np.int32)


def event_records(raw: RawColumns, work: DeviceWork, waits: RecordedWaits) -> EventRecords:
    """Calls that recorded an event, with its stream: from the device's own marks, else from what waited for it."""
    marks = raw.event_records
    known = waits.take((waits.record != NONE) & (waits.stream != NONE))
    recorded = scattered(work, "launch", marks.row.astype(np.int64)).astype(np.int32)
    row = np.concatenate([recorded, known.record])
    columns = {
        "stream": np.concatenate([marks.stream, known.stream]),
        "event": np.concatenate([marks.event, known.event]),
        "reached": np.concatenate([marks.row, np.full(len(known), NONE, np.int32)]),
    }
    rows, first = np.unique(row, return_index=True)
    first = first[rows != NONE]
    return EventRecords(row=row[first], **{name: values[first] for name, values in columns.items()})
