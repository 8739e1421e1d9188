"""Rows of a timeline that a replay is made of: device work with its launch, and the calls of launching threads."""

from dataclasses import dataclass

import numpy as np

from redline.ledger.rank.activity import Mask
from redline.ledger.rank.name_matching import matching
from redline.timeline.table import I64, Column, grouped, numbers_in
from redline.timeline.timeline import BUSY_KINDS, CALL_KINDS, NONE, Timeline
from redline.trace import schema


@dataclass(frozen=True, kw_only=True)
class RecordedWork:
    """Device work in order of start, and the calls that launched it or waited for it."""

    row: I64  # of device work, in the timeline's spans
    start_ns: I64
    end_ns: I64
    lane: I64
    launch: I64  # row of the call that launched it; NONE where it is not recorded
    calls: I64  # rows of the calls that launch or block, ascending; of a thread that asks again and again, the last
    call_start_ns: I64  # of the first, where a thread asks again and again
    call_end_ns: I64
    waits: Mask  # which of the calls wait for a stream, an event or the device
    asks: Mask  # which of the calls end a row of questions whether an event has happened
    lanes: I64  # threads of these calls; on a CPU all that run operators, the busiest first
    on_cpu: bool = False  # operators are the work; exchanges run on threads of their own

    @property
    def is_launched(self) -> Mask:
        is_launched: Mask = self.launch != NONE
        return is_launched

    def launched_ns(self, timeline: Timeline) -> I64:
        """When each piece was launched; 0 where it is not recorded."""
        return np.where(self.is_launched, timeline.spans.start_ns[self.launch], 0)

    def in_order_of_launch(self, timeline: Timeline) -> dict[int, I64]:
        """For each stream the places of its work whose launch is known."""
        launched_ns = self.launched_ns(timeline)
        launched = np.flatnonzero(self.is_launched)
        launched = launched[np.argsort(launched_ns[launched], kind="stable")]
        return {lane: launched[here] for lane, here in grouped(self.lane[launched])}


def device_work(timeline: Timeline) -> RecordedWork:
    spans, work = timeline.spans, timeline.device_work
    place = np.flatnonzero(np.isin(spans.kind[work.row], np.array(BUSY_KINDS, np.uint8)))
    row, launch = work.row[place].astype(np.int64), work.launch[place].astype(np.int64)
    launch = np.where(spans.start_ns[launch] <= spans.start_ns[row], launch, NONE)  # ran before it was launched: wrong
    calls = spans.rows_of(*CALL_KINDS)
    waits = matching(timeline, calls, schema.waits_for_device)
    asks = matching(timeline, calls, schema.asks_for_event)
    launching = np.zeros(len(spans) + 1, bool)
    launching[launch] = True
    launching[NONE] = False
    lanes = np.array(numbers_in(spans.lane[np.flatnonzero(launching[:-1])]), np.int64)
    chosen = (launching[calls] | waits | asks) & np.isin(spans.lane[calls], lanes)
    calls, waits, asks = calls[chosen], waits[chosen], asks[chosen]
    first, last = _rows_of_questions(spans.lane[calls], asks)
    start_ns = spans.start_ns[calls]
    start_ns[last] = start_ns[first]
    kept = ~asks
    kept[last] = True
    return RecordedWork(
        row=row,
        start_ns=spans.start_ns[row],
        end_ns=spans.end_ns[row],
        lane=spans.lane[row].astype(np.int64),
        launch=launch,
        calls=calls[kept],
        call_start_ns=start_ns[kept],
        call_end_ns=spans.end_ns[calls[kept]],
        waits=waits[kept],
        asks=asks[kept],
        lanes=lanes,
    )


def _rows_of_questions(lane: Column, asks: Mask) -> tuple[I64, I64]:
    """First and last of the questions that a thread asks one after the other, without launching anything between."""
    order = np.argsort(lane, kind="stable")
    asking, thread = asks[order], lane[order]
    goes_on = asking[1:] & asking[:-1] & (thread[1:] == thread[:-1])
    begins = asking & ~np.append(False, goes_on)[: len(asking)]
    ends = asking & ~np.append(goes_on, False)[: len(asking)]
    return order[begins], order[ends]


def runs_on_cpu(timeline: Timeline) -> bool:
    """Whether operators are the work, as there is no device in the trace."""
    on_device = np.array([lane.on_device for lane in timeline.lanes], bool)
    return not on_device[timeline.spans.lane[timeline.spans.rows_of(*BUSY_KINDS)]].any()
