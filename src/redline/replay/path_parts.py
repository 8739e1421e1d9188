"""What the critical path runs through, by name: kernels, operators of the host, waits; and what hides exchanges."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from redline.analysis.rank.activity import cut_at, loader_time, window_of
from redline.analysis.rank.backward_passes import passes_of
from redline.analysis.rank.host_phases import PHASES, Phase, host_phases_of
from redline.replay.critical_path import CriticalPath
from redline.replay.edges import EdgeKind
from redline.replay.forecast import JobReplay
from redline.timeline.intervals import Intervals
from redline.timeline.nesting import innermost_at
from redline.timeline.table import I64, grouped
from redline.timeline.timeline import NONE, Kind, Timeline


class PathTime(StrEnum):
    """What a piece of the critical path is."""

    COMPUTE = "compute"
    COPY = "copy"
    TRANSFER = "transfer"
    HOST = "host"
    INPUT = "input"  # the host, in the data loader
    SYNC = "sync"  # the host returns from waiting for the device
    QUEUE = "queue"  # launch latency, gaps between queued work
    OTHER = "other"  # why it came no sooner is not recorded


_OF_KIND = {
    EdgeKind.HOST: PathTime.HOST,
    EdgeKind.RETURN: PathTime.HOST,
    EdgeKind.LOADER: PathTime.INPUT,
    EdgeKind.LAUNCH: PathTime.QUEUE,
    EdgeKind.STREAM: PathTime.QUEUE,
    EdgeKind.EVENT: PathTime.QUEUE,
    EdgeKind.DEVICE: PathTime.COMPUTE,
    EdgeKind.TRANSFER: PathTime.TRANSFER,
    EdgeKind.WAIT: PathTime.SYNC,
    EdgeKind.QUEUE: PathTime.SYNC,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class CriticalPart:
    """Pieces of the path that are of one kind, in one phase of one rank, under one name."""

    time: PathTime
    phase: Phase
    rank: int
    name: str  # of a kernel, or of the innermost operator on the thread; "" between operators
    time_ns: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Hiding:
    """How long a kernel ran while an exchange did."""

    exchange: str
    kernel: str
    time_ns: int


def path_parts(path: CriticalPath, replay: JobReplay, timelines: Sequence[Timeline]) -> tuple[CriticalPart, ...]:
    """The path as it was measured; the largest part first."""
    sums: dict[tuple[PathTime, int, int, str], int] = {}
    for rank, timeline in enumerate(timelines):
        own = path.take(path.rank == rank)
        start_ns = own.start_ns - replay.job.shift_ns[rank]
        for what, phase, name, time_ns in _pieces(own, start_ns, timeline):
            key = (what, phase, timeline.rank, name)
            sums[key] = sums.get(key, 0) + time_ns
    parts = (
        CriticalPart(time=what, phase=PHASES[phase], rank=rank, name=name, time_ns=time_ns)
        for (what, phase, rank, name), time_ns in sums.items()
    )
    return tuple(sorted(parts, key=lambda part: (-part.time_ns, part.name, part.rank, part.phase)))


def _pieces(own: CriticalPath, start_ns: I64, timeline: Timeline) -> Iterator[tuple[PathTime, int, str, int]]:
    phases = host_phases_of(timeline, passes_of(timeline), window_of(timeline))
    on_host = np.isin(own.kind, (EdgeKind.HOST, EdgeKind.RETURN)) & (own.lane != NONE)
    for lane, here in grouped(own.lane[on_host]):
        chosen = np.flatnonzero(on_host)[here]
        yield from _on_thread(timeline, lane, start_ns[chosen], start_ns[chosen] + own.dur_ns[chosen], phases.at)
    spans = timeline.spans
    launch_of = np.full(len(spans) + 1, NONE, np.int64)
    launch_of[timeline.device_work.row] = timeline.device_work.launch
    for piece in np.flatnonzero(~on_host).tolist():
        row = int(own.row[piece])
        launch = int(launch_of[row])
        at_ns = int(spans.start_ns[launch]) if launch != NONE else int(start_ns[piece])
        what = _OF_KIND.get(EdgeKind(int(own.kind[piece])), PathTime.OTHER)
        if what is PathTime.COMPUTE and spans.kind[row] in (Kind.COPY, Kind.SET):
            what = PathTime.COPY
        name = timeline.texts[spans.name[row]] if row != NONE else ""
        yield what, int(phases.at(np.array([at_ns]))[0]), name, int(own.dur_ns[piece])


def _on_thread(
    timeline: Timeline, lane: int, start_ns: I64, end_ns: I64, phase_at: Callable[[I64], I64]
) -> Iterator[tuple[PathTime, int, str, int]]:
    """Pieces of a thread's time, cut where operators and the data loader begin and end."""
    spans, rows = timeline.spans, timeline.rows_of_lane(lane)
    operators = rows[spans.kind[rows] == Kind.OPERATOR]
    loading = loader_time(timeline).get(lane, Intervals.empty())
    begins_ns, stops_ns = spans.start_ns[operators], spans.end_ns[operators]
    order = np.argsort(start_ns)
    borders = np.concatenate([begins_ns, stops_ns, loading.start, loading.end])
    from_ns, to_ns, _ = cut_at(np.unique(borders), start_ns[order], end_ns[order])
    inner = innermost_at(from_ns, begins_ns, stops_ns)
    is_loading, phase = loading.contains(from_ns), phase_at(from_ns)
    for piece, operator in enumerate(inner.tolist()):
        name = timeline.texts[spans.name[operators[operator]]] if operator != NONE else ""
        what = PathTime.INPUT if is_loading[piece] else PathTime.HOST
        yield what, int(phase[piece]), name, int(to_ns[piece] - from_ns[piece])


def hiding_kernels(timeline: Timeline) -> tuple[Hiding, ...]:
    """Kernels that ran while each kind of exchange did, the longest first: what hides it."""
    spans, comms = timeline.spans, timeline.communications
    kernels = spans.rows_of(Kind.KERNEL)
    hidings = []
    for kind, here in grouped(comms.collective):
        rows = comms.row[here]
        during = Intervals.union_of(spans.start_ns[rows], spans.end_ns[rows])
        hidden_ns = during.overlap_with(spans.start_ns[kernels], spans.end_ns[kernels])
        sums = np.bincount(spans.name[kernels], weights=hidden_ns, minlength=len(timeline.texts))
        hidings += [
            Hiding(exchange=timeline.text(kind), kernel=timeline.texts[name], time_ns=int(sums[name]))
            for name in np.flatnonzero(sums).tolist()
        ]
    return tuple(sorted(hidings, key=lambda hiding: (-hiding.time_ns, hiding.exchange, hiding.kernel)))
