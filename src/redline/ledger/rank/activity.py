"""What a rank's device did when: computing, communicating, copying or nothing; each instant once.

The device of a rank is the union of its streams. In a trace without device work it is the CPU: operators are its
kernels, and an operator counts where it runs itself, not where it has called another.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt

from redline.ledger.rank.disjoint_work import Owned
from redline.ledger.rank.name_matching import matching
from redline.timeline.intervals import Intervals, distinct_times
from redline.timeline.nesting import innermost_segments, lumps_of
from redline.timeline.problems import Reason
from redline.timeline.table import I64, Column, grouped
from redline.timeline.timeline import CALL_KINDS, NONE, Kind, Timeline
from redline.trace import schema
from redline.values import dataclass

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class DeviceActivity:
    """The four sets of instants are disjoint and fill the window."""

    device: Literal["gpu", "cpu"]
    window_ns: tuple[int, int]
    compute: Owned
    communication: Owned
    copies: Owned
    computing: Intervals
    communicating: Intervals  # and not computing
    copying: Intervals  # and neither of these
    idle: Intervals

    @property
    def busy(self) -> Intervals:
        return self.computing | self.communicating | self.copying


def activity_of(timeline: Timeline) -> DeviceActivity:
    on_device = np.array([lane.on_device for lane in timeline.lanes], bool)[timeline.spans.lane]
    busy = timeline.spans.rows_of(Kind.KERNEL, Kind.COMMUNICATION, Kind.COPY, Kind.SET)
    calls = timeline.spans.rows_of(*CALL_KINDS)
    unknown = any(problem.reason is Reason.UNKNOWN_DEVICE for problem in timeline.source.problems)
    if unknown or on_device[busy].any() or matching(timeline, calls, schema.launches_kernel).any():
        return _of_gpu(timeline, busy[on_device[busy]])
    return _of_cpu(timeline)


def compute_ns(timeline: Timeline, activity: DeviceActivity) -> I64:
    """Whole durations of compute kernels; of a CPU's operators only the time in which they run themselves."""
    if activity.device == "cpu":
        return activity.compute.dur_ns
    return timeline.spans.dur_ns[activity.compute.row]


def window_of(timeline: Timeline) -> tuple[int, int]:
    """First start and last end of what belongs to the job: threads that only poll the device do not extend it."""
    spans = timeline.spans
    counts = (spans.kind < Kind.OVERHEAD) & np.isin(spans.lane, working_lanes(timeline))
    if not counts.any():
        return timeline.window_ns
    return int(spans.start_ns[counts].min()), int(spans.end_ns[counts].max())


def working_lanes(timeline: Timeline) -> I64:
    """Streams, and threads that run operators, Python or regions, or launch work; not those of watchdogs."""
    spans, launch = timeline.spans, timeline.device_work.launch
    working = np.array([lane.on_device for lane in timeline.lanes], bool)
    working[spans.lane[spans.rows_of(Kind.OPERATOR, Kind.PYTHON, Kind.ANNOTATION, Kind.COMMUNICATION)]] = True
    working[spans.lane[launch[launch != NONE]]] = True
    return np.flatnonzero(working)


def _of_gpu(timeline: Timeline, rows: I64) -> DeviceActivity:
    spans = timeline.spans
    kind = spans.kind[rows]
    pieces = [
        Owned.of(rows[chosen], spans.start_ns[rows[chosen]], spans.end_ns[rows[chosen]])
        for chosen in (kind == Kind.KERNEL, kind == Kind.COMMUNICATION, (kind == Kind.COPY) | (kind == Kind.SET))
    ]
    return _arranged("gpu", window_of(timeline), *pieces)


def _of_cpu(timeline: Timeline) -> DeviceActivity:
    spans = timeline.spans
    row, start_ns, end_ns = _without_exchanges(timeline, *own_time_of_operators(timeline))
    copies = matching(timeline, row, schema.is_copying_operator)
    compute = Owned.of(row[~copies], start_ns[~copies], end_ns[~copies])
    moved = Owned.of(row[copies], start_ns[copies], end_ns[copies])
    rows = spans.rows_of(Kind.COMMUNICATION)
    communication = Owned.of(rows, spans.start_ns[rows], spans.end_ns[rows])
    return _arranged("cpu", window_of(timeline), compute, communication, moved)


def own_time_of_operators(timeline: Timeline) -> tuple[I64, I64, I64]:
    """Row, start and end of all stretches in which an operator itself computes; none inside the data loader."""
    spans = timeline.spans
    operators = spans.rows_of(Kind.OPERATOR)
    works = _works(timeline, operators)
    loading = loader_time(timeline)
    parts: list[tuple[I64, I64, I64]] = []
    starts_ns, ends_ns = spans.start_ns[operators], spans.end_ns[operators]
    for places, shift_ns in lumps_of(spans.lane[operators], starts_ns, ends_ns):
        start_ns, end_ns, index = innermost_segments(starts_ns[places] + shift_ns, ends_ns[places] + shift_ns)
        start_ns, end_ns = start_ns - shift_ns[index], end_ns - shift_ns[index]
        place = places[index]
        if loading:
            start_ns, end_ns, place = _outside_loaders(loading, spans.lane[operators], start_ns, end_ns, place)
        keep = works[place]
        parts.append((operators[place[keep]], start_ns[keep], end_ns[keep]))
    if not parts:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    row, start_ns, end_ns = (np.concatenate([part[place] for part in parts]) for place in range(3))
    order = np.argsort(spans.lane[row], kind="stable")
    return row[order], start_ns[order], end_ns[order]


def _without_exchanges(timeline: Timeline, row: I64, start_ns: I64, end_ns: I64) -> tuple[I64, I64, I64]:
    """Without what of autograd functions written in Python lies in an exchange: they wait for other threads."""
    spans, exchanges = timeline.spans, timeline.spans.rows_of(Kind.COMMUNICATION)
    waits = matching(timeline, row, schema.is_python_function)
    if not len(exchanges) or not waits.any():
        return row, start_ns, end_ns
    exchanging = Intervals.union_of(spans.start_ns[exchanges], spans.end_ns[exchanges])
    parts = [(row[~waits], start_ns[~waits], end_ns[~waits])]
    for _, here in grouped(spans.lane[row[waits]]):
        chosen = np.flatnonzero(waits)[here]
        starts, ends, places = _apart_from(exchanging, start_ns[chosen], end_ns[chosen], chosen)
        parts.append((row[places], starts, ends))
    rows, starts, ends = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((starts, spans.lane[rows]))
    return rows[order], starts[order], ends[order]


def _outside_loaders(
    loading: dict[int, Intervals], lane: Column, start_ns: I64, end_ns: I64, place: I64
) -> tuple[I64, I64, I64]:
    """Stretches in order of lane, without what of them lies in the lane's data loader."""
    parts = [(start_ns[:0], end_ns[:0], place[:0])]
    for number, here in grouped(lane[place]):
        part = start_ns[here], end_ns[here], place[here]
        parts.append(_apart_from(loading[number], *part) if number in loading else part)
    starts, ends, places = (np.concatenate(column) for column in zip(*parts, strict=True))
    return starts, ends, places


def _apart_from(time: Intervals, start_ns: I64, end_ns: I64, index: I64) -> tuple[I64, I64, I64]:
    """Disjoint stretches in order, without what of them lies in some time."""
    start_ns, end_ns, of = cut_at(np.concatenate([time.start, time.end]), start_ns, end_ns)
    keep = ~time.contains(start_ns)
    return start_ns[keep], end_ns[keep], index[of[keep]]


def cut_at(borders: I64, start_ns: I64, end_ns: I64) -> tuple[I64, I64, I64]:
    """Disjoint stretches in order, cut wherever a border lies inside: start and end of each piece, and its stretch."""
    if not len(start_ns):
        return start_ns, end_ns, np.empty(0, np.int64)
    around = np.searchsorted(start_ns, borders, side="right") - 1
    inside = (around >= 0) & (borders < end_ns[around])
    starts = distinct_times(start_ns, np.sort(borders[inside]))
    of = np.searchsorted(start_ns, starts, side="right") - 1
    return starts, np.minimum(end_ns[of], np.append(starts[1:], end_ns[-1])), of


def _works(timeline: Timeline, operators: I64) -> Mask:
    """Which operators compute in their own time; compiled code does so even inside a node of the backward pass."""
    is_bookkeeping = matching(timeline, operators, schema.is_bookkeeping_operator)
    return ~is_bookkeeping | matching(timeline, operators, schema.is_compiled_region)


def loader_time(timeline: Timeline) -> dict[int, Intervals]:
    """When each thread was in a data loader."""
    spans = timeline.spans
    rows = spans.rows_of(Kind.ANNOTATION)
    rows = rows[matching(timeline, rows, schema.is_data_loader)]
    return {
        lane: Intervals.union_of(spans.start_ns[here], spans.end_ns[here])
        for lane, places in grouped(spans.lane[rows])
        for here in (rows[places],)
    }


def _arranged(
    device: Literal["gpu", "cpu"], window_ns: tuple[int, int], compute: Owned, communication: Owned, copies: Owned
) -> DeviceActivity:
    computing = compute.where()
    communicating = communication.where() - computing
    copying = copies.where() - computing - communicating
    return DeviceActivity(
        device=device,
        window_ns=window_ns,
        compute=compute,
        communication=communication,
        copies=copies,
        computing=computing,
        communicating=communicating,
        copying=copying,
        idle=(computing | communicating | copying).gaps(*window_ns),
    )
