"""A timeline as events that Perfetto opens: named rank, shared clock, arrows, and nothing that Perfetto would drop.

Perfetto drops a slice that begins inside another of its track and outlives it. Such spans (neighbouring kernels,
regions that cross Python calls) go to a further track of their lane.
"""

import heapq
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO, cast

import msgspec
import numpy as np
from isal import igzip
from msgspec import Raw

from redline.artifacts import Envelope, refuse_unless_writable, write_atomic
from redline.errors import OutputError
from redline.timeline.nesting import parents_of
from redline.timeline.table import I64, Column
from redline.timeline.timeline import NONE, Kind, Timeline, TimelineOrigin
from redline.trace import schema
from redline.trace.metadata import written_metadata, written_rank_metadata
from redline.trace.schema import ABSENT, Args, Arrow, Event, Naming
from redline.values import dataclass

PIDS_PER_RANK = 1000  # the first for the host, then one for each device
TIDS_PER_RANK = 100_000
MEMORY = "memory marks"
_ENCODE = msgspec.json.Encoder().encode

Written = tuple[str, bytes]  # category, text
GZIP_LEVEL = 1
SEPARATOR = b",\n"
KIND = "predicted-trace"
ALTERED_KIND = "altered-trace"


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawnSlice:
    """Something to be drawn beside the ranks. Of slices of a track, an outer one comes before those inside it."""

    track: int  # from 0
    start_ns: int
    dur_ns: int
    name: str


def drawn_events(title: str, slices: Sequence[DrawnSlice], beyond: int, zero_ns: int) -> Iterator[Written]:
    """A process with these slices, above all ranks; `beyond` is a number that no rank has, `zero_ns` counts as 0."""
    pid, first_tid = beyond * PIDS_PER_RANK + 1, beyond * TIDS_PER_RANK + 1
    yield _naming("process_name", pid, 0, {"name": title})
    yield _naming("process_sort_index", pid, 0, {"sort_index": -1})
    for track in sorted({drawn.track for drawn in slices}):
        label = f"{title} ({track + 1})" if track else title
        yield _naming("thread_name", pid, first_tid + track, {"name": label})
        yield _naming("thread_sort_index", pid, first_tid + track, {"sort_index": track})
    for drawn in slices:
        event = Event(
            ph=schema.COMPLETE,
            cat=schema.DRAWN_CATEGORY,
            name=drawn.name,
            pid=pid,
            tid=first_tid + drawn.track,
            ts=(drawn.start_ns - zero_ns) / 1000,
            dur=drawn.dur_ns / 1000,
        )
        yield schema.DRAWN_CATEGORY, _ENCODE(event)


class RankEvents:
    """The events of one rank, as text."""

    def __init__(
        self, timeline: Timeline, shift_ns: int, kinds: frozenset[Kind], *, memory: bool, further_tracks: bool = True
    ) -> None:
        """`shift_ns` is added to every time; only spans of these kinds are written. Without further tracks a lane stays
        one, as in a trace of the profiler, and Perfetto drops what it would drop there."""
        self._timeline = timeline
        self._shift_ns = shift_ns
        self._memory = memory
        self._first_pid = timeline.rank * PIDS_PER_RANK + 1
        spans = timeline.spans
        self._kept = np.isin(spans.kind, np.array(sorted(kinds), np.uint8))
        self._devices = sorted({lane.device for lane in timeline.lanes} - {NONE})
        place = {device: 1 + number for number, device in enumerate(self._devices)}
        pids = [self._first_pid + place.get(lane.device, 0) for lane in timeline.lanes]
        self._pid = np.array(pids or [0])[spans.lane]
        self._tids = _ThreadNumbers(timeline.rank * TIDS_PER_RANK + 1)  # Perfetto wants them unique, and none to be 0
        track = _tracks(timeline, self._kept) if further_tracks else np.zeros(len(spans), np.int64)
        tracks = zip(spans.lane.tolist(), track.tolist(), strict=True)
        self._tid = np.fromiter(map(self._tids.__getitem__, tracks), np.int64, len(spans))
        self._name = [timeline.texts[name] for name in spans.name.tolist()]
        self._start_us = (spans.start_ns + shift_ns) / 1000  # shifted times are small: a double holds them exactly
        self._dur_us = spans.dur_ns / 1000
        self._reached = frozenset(timeline.event_records.reached.tolist())

    def __iter__(self) -> Iterator[Written]:
        yield from self._namings()
        yield from self._spans()
        yield from self._launch_arrows()
        yield from self._forward_arrows()
        if self._memory:
            yield from self._memory_marks()

    def _namings(self) -> Iterator[Written]:
        rank, changes = self._timeline.rank, "; ".join(self._timeline.changes)
        altered = f" (altered by {changes:.200}, not measured)" if changes else ""
        rows = np.flatnonzero(self._kept)
        for pid in np.unique(self._pid[rows]).tolist():
            number = pid - self._first_pid
            label = f"Rank {rank} GPU {self._devices[number - 1]}" if number else f"Rank {rank}"
            yield _naming("process_name", pid, 0, {"name": label + altered})
            yield _naming("process_sort_index", pid, 0, {"sort_index": pid})
        track_of = {tid: track for (_, track), tid in self._tids.items()}
        where = (self._pid, self._tid, self._timeline.spans.lane)
        for pid, tid, number in sorted(set(zip(*(column[rows].tolist() for column in where), strict=True))):
            lane, track = self._timeline.lanes[number], track_of[tid]
            label = lane.label or (f"stream {lane.stream}" if lane.on_device else f"thread {lane.thread}")
            yield _naming("thread_name", pid, tid, {"name": f"{label} ({track + 1})" if track else label})
            yield _naming("thread_sort_index", pid, tid, {"sort_index": tid})

    def _spans(self) -> Iterator[Written]:
        """Spans with what their side table knows, in the order of the timeline: of two that start together,
        Perfetto takes the one written first for the outer."""
        timeline = self._timeline
        tables = (
            (timeline.operators.row, self._operator_args()),
            (timeline.calls.row, self._call_args()),
            (timeline.device_work.row, self._device_args()),
            (timeline.python_calls.row, self._python_args()),
        )
        bare = np.ones(len(timeline.spans), bool)
        for rows, _ in tables:
            bare[rows] = False
        numbered = [zip(rows.tolist(), arguments, strict=True) for rows, arguments in tables]
        without = ((row, None) for row in np.flatnonzero(bare).tolist())
        for row, args in heapq.merge(*numbered, without, key=itemgetter(0)):
            if self._kept[row]:
                yield self._span(row, args)

    def _span(self, row: int, args: Args | None) -> Written:
        category = self._category(row)
        event = Event(
            ph=schema.COMPLETE,
            cat=category,
            name=self._name[row],
            pid=int(self._pid[row]),
            tid=int(self._tid[row]),
            ts=float(self._start_us[row]),
            dur=float(self._dur_us[row]),
            args=args,
        )
        return category, _ENCODE(event)

    def _category(self, row: int) -> str:
        if row in self._reached:
            return schema.EVENT_CATEGORY
        kind = Kind(int(self._timeline.spans.kind[row]))
        if kind is Kind.COMMUNICATION:
            on_device = self._timeline.lanes[int(self._timeline.spans.lane[row])].on_device
            kind = Kind.KERNEL if on_device else Kind.ANNOTATION
        return schema.CATEGORY_OF_KIND[kind]

    # --- arguments ---

    def _operator_args(self) -> Iterator[Args]:
        table, comms = self._timeline.operators, self._timeline.communications
        number_of = dict(zip(comms.row.tolist(), comms.sequence.tolist(), strict=True))
        for row, external, sequence, thread, shapes, dtypes, strides, values in zip(
            *(table.columns()[name].tolist() for name in ("row", "external_id", "sequence", "forward_thread")),
            *(self._raws(table.columns()[name]) for name in ("shapes", "dtypes", "strides", "values")),
            strict=True,
        ):
            yield Args(
                external_id=external,
                sequence=sequence,
                forward_thread=thread,
                shapes=shapes,
                dtypes=dtypes,
                strides=strides,
                values=values,
                collective_number=number_of.get(row, NONE),
            )

    def _call_args(self) -> Iterator[Args]:
        table = self._timeline.calls
        for correlation, external in zip(table.correlation.tolist(), table.external_id.tolist(), strict=True):
            yield Args(correlation=correlation, external_id=external)

    def _python_args(self) -> Iterator[Args]:
        table = self._timeline.python_calls
        columns = (table.id.tolist(), table.parent_id.tolist(), table.module_id.tolist())
        for number, parent, module in zip(*columns, strict=True):
            yield Args(python_id=number, python_parent_id=parent, python_module_id=module)

    def _device_args(self) -> Iterator[Args]:
        timeline = self._timeline
        table = timeline.device_work
        about = self._communication_args() | self._wait_args()
        for row, correlation, external, size, grid, block, node in zip(
            table.row.tolist(),
            *(column.tolist() for column in (table.correlation, table.external_id, table.bytes)),
            self._raws(table.grid),
            self._raws(table.block),
            table.graph_node.tolist(),
            strict=True,
        ):
            lane = timeline.lanes[int(timeline.spans.lane[row])]
            args = about.get(row) or Args()
            args.correlation, args.external_id, args.graph_node = correlation, external, node
            args.bytes = size if size != NONE else None
            args.grid, args.block = grid, block
            args.device, args.stream = lane.device, lane.stream if lane.stream != NONE else None
            yield args

    def _communication_args(self) -> dict[int, Args]:
        timeline = self._timeline
        comms = timeline.communications.take(timeline.communications.described == 1)
        args_of_row = {}
        for index, row in enumerate(comms.row.tolist()):
            args_of_row[row] = Args(
                collective=timeline.text(int(comms.collective[index])),
                in_elements=int(comms.in_elements[index]),
                out_elements=int(comms.out_elements[index]),
                dtype=timeline.text(int(comms.dtype[index])),
                group=timeline.text(int(comms.group[index])),
                group_ranks=timeline.text(int(comms.group_ranks[index])),
                group_size=int(comms.group_size[index]),
                source_rank=int(comms.source[index]),
                destination_rank=int(comms.destination[index]),
                collective_number=int(comms.sequence[index]),
            )
        return args_of_row

    def _wait_args(self) -> dict[int, Args]:
        waits, records = self._timeline.waits, self._timeline.event_records
        columns = (waits.row, waits.stream, waits.event, waits.record_correlation)
        args_of_row = {
            row: Args(waited_stream=stream, waited_event=event, waited_record=record)
            for row, stream, event, record in zip(*(column.tolist() for column in columns), strict=True)
        }
        for row, event in zip(records.reached.tolist(), records.event.tolist(), strict=True):
            args_of_row[row] = Args(recorded_event=event)
        return args_of_row

    def _raws(self, column: Column) -> Iterator[Raw]:
        """JSON texts as they were in the trace."""
        known = {index: Raw(self._timeline.texts[index].encode()) for index in np.unique(column).tolist() if index >= 0}
        return (known.get(index, ABSENT) for index in column.tolist())

    # --- arrows and marks ---

    def _launch_arrows(self) -> Iterator[Written]:
        work = self._timeline.device_work
        linked = work.take((work.launch != NONE) & self._kept[work.row] & self._kept[work.launch])
        return self._arrows(schema.FLOW_LAUNCH, linked.launch.astype(np.int64), linked.row.astype(np.int64))

    def _forward_arrows(self) -> Iterator[Written]:
        operators = self._timeline.operators
        linked = operators.take((operators.forward != NONE) & self._kept[operators.row] & self._kept[operators.forward])
        return self._arrows(schema.FLOW_FORWARD_BACKWARD, linked.forward.astype(np.int64), linked.row.astype(np.int64))

    def _arrows(self, category: str, sources: I64, targets: I64) -> Iterator[Written]:
        first_id = self._timeline.rank << 32  # ids must differ between ranks
        for number, (source, target) in enumerate(zip(sources.tolist(), targets.tolist(), strict=True), first_id):
            arrow = partial(Arrow, cat=category, name=category, id=number)
            for phase, row, binding in ((schema.FLOW_START, source, ""), (schema.FLOW_END, target, "e")):
                end = arrow(
                    ph=phase,
                    pid=int(self._pid[row]),
                    tid=int(self._tid[row]),
                    ts=float(self._start_us[row]),
                    bp=binding,
                )
                yield category, _ENCODE(end)

    def _memory_marks(self) -> Iterator[Written]:
        marks = self._timeline.memory
        for index in range(len(marks)):
            event = Event(
                ph=schema.INSTANT,
                cat=schema.MEMORY_CATEGORY,
                name=schema.MEMORY_NAME,
                pid=self._first_pid,
                tid=self._tids[int(marks.lane[index]), 0],
                ts=(int(marks.at_ns[index]) + self._shift_ns) / 1000,
                args=Args(
                    memory_bytes=int(marks.bytes[index]),
                    allocated=int(marks.allocated_bytes[index]),
                    reserved=int(marks.reserved_bytes[index]),
                    memory_device=int(marks.device[index]),
                    address=int(marks.address[index]),
                ),
            )
            yield MEMORY, _ENCODE(event)


class _ThreadNumbers(dict[tuple[int, int], int]):
    """Numbers for the tracks of lanes, in the order in which they are first asked for."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self._first = first

    def __missing__(self, lane_and_track: tuple[int, int]) -> int:
        self[lane_and_track] = number = self._first + len(self)
        return number


def _naming(what: str, pid: int, tid: int, args: dict[str, str | int]) -> Written:
    return "", _ENCODE(Naming(name=what, pid=pid, tid=tid, args=args))


def _tracks(timeline: Timeline, kept: Column) -> I64:
    """The track of its lane on which each span goes: 0, unless it crosses one there."""
    spans = timeline.spans
    track = np.zeros(len(spans), np.int64)
    rows = np.flatnonzero(kept)
    for lane in np.unique(spans.lane[rows]).tolist():
        here = rows[spans.lane[rows] == lane]
        starts, ends = spans.start_ns[here], spans.start_ns[here] + spans.dur_ns[here]
        _, crossing = parents_of(starts, ends, crossing_floor_ns=0)
        if crossing.any():
            track[here] = _untangled(starts.tolist(), ends.tolist())
    return track


def _untangled(starts: list[int], ends: list[int]) -> list[int]:
    """The first track on which each span nests whole."""
    open_ends: list[list[int]] = [[]]
    chosen = []
    for start, end in zip(starts, ends, strict=True):
        track = 0
        while not _nests(open_ends[track], start, end):
            track += 1
            if track == len(open_ends):
                open_ends.append([])
        open_ends[track].append(end)
        chosen.append(track)
    return chosen


def _nests(open_ends: list[int], start: int, end: int) -> bool:
    """Whether a span fits into what is still open on a track; what has ended is closed."""
    while open_ends and open_ends[-1] <= start:
        open_ends.pop()
    return not open_ends or end <= open_ends[-1]


def write_timelines(
    timelines: Sequence[Timeline], path: Path, *, made_by: str, notes: Sequence[str] = (), force: bool = False
) -> int:
    """One file of these ranks, which share a clock; gives the bytes of its text. `notes` say what was left out."""
    check_trace_name(path, force=force)
    size_bytes = 0
    with write_atomic(path, force=force) as file, compressed(file, path) as text:
        for piece in _document(timelines, made_by, notes):
            size_bytes += len(piece)
            text.write(piece)
    return size_bytes


def check_trace_name(path: Path, *, force: bool) -> None:
    """Refuse a place that cannot be written to before the work, not after."""
    if not path.name.endswith((".json", ".json.gz")):
        raise OutputError(f"{path}: a trace is written as .json or .json.gz; give it such a name.")
    refuse_unless_writable(path, force=force)


def head(record: dict[str, object]) -> bytes:
    """The beginning of a document, up to its first event."""
    return msgspec.json.encode(record)[:-1] + b',\n"' + schema.EVENTS_NAME.encode() + b'": [\n'


TAIL = b"\n]}\n"


@contextmanager
def compressed(file: BinaryIO, path: Path) -> Iterator[BinaryIO]:
    """The file itself, or what compresses into it if the name asks for that."""
    if path.suffix != ".gz":
        yield file
        return
    inner = cast(BinaryIO, igzip.open(file, "wb", compresslevel=GZIP_LEVEL))  # type: ignore[no-untyped-call]
    with inner:
        yield inner


def _document(timelines: Sequence[Timeline], made_by: str, notes: Sequence[str]) -> Iterator[bytes]:
    first = timelines[0]
    kind = ALTERED_KIND if first.origin is TimelineOrigin.ALTERED else KIND
    envelope = Envelope(kind=kind, schema_version=1, made_by=made_by, synthetic=bool(first.metadata.synthetic))
    zero_ns = min(timeline.zero_ns for timeline in timelines)
    yield head(
        {
            "redline": {**envelope.to_dict(), "notes": list(notes)},
            schema.ORIGIN_KEY: str(first.origin),
            schema.BASE_TIME_KEY: zero_ns,
            "displayTimeUnit": "ms",
            **(
                written_rank_metadata(first)
                if kind == ALTERED_KIND and len(timelines) == 1
                else written_metadata(first.metadata)
            ),
        }
    )
    separator = b""
    for timeline in timelines:
        events = RankEvents(
            timeline,
            timeline.zero_ns - zero_ns,
            frozenset(Kind),
            memory=True,
            further_tracks=kind != ALTERED_KIND,
        )
        for _, text in events:
            yield separator + text
            separator = SEPARATOR
    yield TAIL
