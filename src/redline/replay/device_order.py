"""What device work waited for: its launch, the work before it on its stream, and work of other streams."""

from dataclasses import dataclass

import numpy as np

from redline.ledger.rank.activity import Mask
from redline.replay.recorded_order import RecordedWork
from redline.timeline.table import I64, grouped
from redline.timeline.timeline import NONE, Timeline

_FREE_NS = 2_000  # a stream that was done this long before a launch did not hold its work up
_QUEUED_NS = 30_000  # a launch this long before the stream was done did not hold its work up
_LAUNCH_QUANTILE = 0.2  # a median would take waiting for other streams for latency
_SHORTEST_LAUNCH_NS, _LONGEST_LAUNCH_NS, _USUAL_LAUNCH_NS = 1_000, 30_000, 6_000
_LONGEST_GAP_NS, _USUAL_GAP_NS = 20_000, 1_000
_LONGEST_WAKING_NS = 500_000  # of a thread of the backend, which may have to wait for a core
RETURN_NS = 3_000  # from the end of the work that the host waits for to the end of the call


@dataclass(frozen=True, kw_only=True)
class Latencies:
    """What starts take after what they waited for, as a rule of this trace."""

    launch_ns: int  # from the start of a launch to its work on a free stream
    gap_ns: int  # between two pieces of work that were both in the queue
    return_ns: int = RETURN_NS


@dataclass(frozen=True, kw_only=True)
class StreamOrder:
    """For each piece of device work the one before it on its stream."""

    before: I64  # place of it; NONE for the first
    overlaps: Mask  # whether that one still ran


def stream_order(work: RecordedWork) -> StreamOrder:
    before = np.full(len(work.row), NONE)
    for _, here in grouped(work.lane):
        before[here[1:]] = here[:-1]
    return StreamOrder(before=before, overlaps=(before != NONE) & (work.end_ns[before] > work.start_ns))


def latencies_of(timeline: Timeline, work: RecordedWork, order: StreamOrder) -> Latencies:
    launched_ns = work.launched_ns(timeline)
    has_before = order.before != NONE
    done_ns = work.end_ns[order.before] if len(work.row) else work.end_ns
    free = work.is_launched & (~has_before | (done_ns < launched_ns - _FREE_NS))
    queued = work.is_launched & has_before & (done_ns > launched_ns + _QUEUED_NS) & ~order.overlaps
    launch_ns, gap_ns = float(_USUAL_LAUNCH_NS), float(_USUAL_GAP_NS)
    if free.any():
        launch_ns = float(np.quantile((work.start_ns - launched_ns)[free], _LAUNCH_QUANTILE))
    if queued.any():
        gap_ns = float(np.median((work.start_ns - done_ns)[queued]))
    longest_ns = _LONGEST_WAKING_NS if work.on_cpu else _LONGEST_LAUNCH_NS
    return Latencies(
        launch_ns=int(np.clip(launch_ns, _SHORTEST_LAUNCH_NS, longest_ns)),
        gap_ns=int(np.clip(gap_ns, 0, _LONGEST_GAP_NS)),
    )
