"""Decoded events to columns: one row per timed event, side tables for what only some events have."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
from msgspec import Raw

from redline.timeline.problems import ProblemLog, Reason
from redline.timeline.table import I32, I64, Column, Table, column
from redline.timeline.timeline import (
    CALL_KINDS,
    NONE,
    Calls,
    DeviceWork,
    Kind,
    MemoryMarks,
    Operators,
    PythonCalls,
    Spans,
)
from redline.trace import schema
from redline.trace.decode import NO_TIME, Decoded
from redline.trace.schema import AnyEvent, Args

LaneKey = tuple[int | str, int | str, bool]  # process, thread, whether a stream of a device
_ON_DEVICE = frozenset({Kind.KERNEL, Kind.COPY, Kind.SET, Kind.SYNC, Kind.DEVICE_ANNOTATION})
_WORK_OF_DEVICE = frozenset({Kind.KERNEL, Kind.COPY, Kind.SET, Kind.SYNC})
_INT64 = np.iinfo(np.int64)
_NO_ARGS = Args()


@dataclass(frozen=True, kw_only=True)
class Descriptions(Table):
    """The profiler's metadata of collectives, as it sits on operators and kernels."""

    row: I32 = column(np.int32)
    collective: I32 = column(np.int32)  # text
    in_elements: I64 = column(np.int64)
    out_elements: I64 = column(np.int64)
    dtype: I32 = column(np.int32)  # text
    group: I32 = column(np.int32)  # text
    group_ranks: I32 = column(np.int32)  # text
    group_size: I32 = column(np.int32)
    rank: I64 = column(np.int64)  # of the process, within the group


@dataclass(frozen=True, kw_only=True)
class Flows(Table):
    """Ends of arrows from forward to backward operators."""

    id: I64 = column(np.int64)
    at_ns: I64 = column(np.int64)
    lane: Column = column(np.int32)
    is_start: Column = column(np.uint8)


@dataclass(frozen=True, kw_only=True)
class RawColumns:
    """Everything kept of one document, in the order it was written; times since the file's own base."""

    spans: Spans
    operators: Operators
    calls: Calls
    device_work: DeviceWork
    python_calls: PythonCalls
    memory: MemoryMarks
    descriptions: Descriptions
    flows: Flows
    texts: list[str]
    lanes: list[LaneKey]
    lane_streams: dict[int, tuple[int, int]]  # lane -> device, stream, as the events say
    process_names: dict[int | str, list[str]]
    thread_names: dict[tuple[int | str, int | str], str]
    events: dict[str, int]  # by category; by phase where there is none


TableType = TypeVar("TableType", bound=Table)


class Collector:
    """Takes decoded batches, gives columns."""

    def __init__(self, log: ProblemLog) -> None:
        self._log = log
        self._texts: dict[str, int] = {}
        self._raw_texts: dict[bytes, int] = {}
        self._lanes: dict[LaneKey, int] = {}
        self._lane_streams: dict[int, tuple[int, int]] = {}
        self._process_names: dict[int | str, list[str]] = {}
        self._thread_names: dict[tuple[int | str, int | str], str] = {}
        self._parts: dict[type[Table], list[dict[str, Column]]] = {}
        self._events: Counter[str] = Counter()
        self._open: list[tuple[AnyEvent, int]] = []  # begin and end events with their times
        self._rows = 0

    def add(self, batch: Decoded) -> None:
        groups: dict[tuple[str, str], list[int]] = {}
        for index, event in enumerate(batch.events):
            key = (event.ph, event.cat)
            if key in groups:
                groups[key].append(index)
            else:
                groups[key] = [index]
        for (phase, category), indices in groups.items():
            self._add_group(phase, category, np.array(indices), batch)

    def _add_group(self, phase: str, category: str, indices: I64, batch: Decoded) -> None:
        category = schema.canonical_category(category)
        events = [batch.events[index] for index in indices.tolist()]
        start_ns, dur_ns = batch.start_ns[indices], batch.dur_ns[indices]
        self._events[category or f"ph:{phase}" if phase else "ph:"] += len(events)
        if phase == schema.COMPLETE:
            self._add_spans(schema.kind_of(category), events, start_ns, dur_ns)
        elif phase in (schema.BEGIN, schema.END):
            self._open += zip(events, start_ns.tolist(), strict=True)
        elif phase in schema.FLOW_PHASES:
            if category == schema.FLOW_FORWARD_BACKWARD:
                self._add_flows(events, start_ns)
        elif phase in schema.INSTANT_PHASES:
            self._add_memory(events, start_ns)
        elif phase == schema.METADATA:
            self._add_names(events)
        elif phase == "":
            self._refuse_phaseless(events)
        elif phase not in schema.QUIET_PHASES:
            self._log.add(Reason.UNKNOWN_PHASE, len(events), example=f"phase {phase[:8]!r}")

    # --- timed events ---

    def _add_spans(self, kind: Kind, events: Sequence[AnyEvent], start_ns: I64, dur_ns: I64) -> None:
        usable = start_ns != NO_TIME
        if not usable.all() or not all(map(attrgetter("name"), events)):
            usable &= np.array([bool(event.name) for event in events])
            self._log.add(Reason.MISSING_FIELD, int((~usable).sum()), example="a timed event without name or ts")
            events = [event for event, use in zip(events, usable.tolist(), strict=True) if use]
            start_ns, dur_ns = start_ns[usable], dur_ns[usable]
        count = len(events)
        if not count:
            return
        rows = np.arange(self._rows, self._rows + count, dtype=np.int32)
        self._rows += count
        names = self._intern(map(attrgetter("name"), events), count)
        self._append(
            Spans,
            start_ns=start_ns,
            dur_ns=dur_ns,
            kind=np.full(count, kind, np.uint8),
            name=names,
            lane=self._lane_column(events, kind in _ON_DEVICE),
            parent=np.full(count, NONE, np.int32),
        )
        self._add_arguments(kind, [event.args or _NO_ARGS for event in events], rows)

    def _add_arguments(self, kind: Kind, args: list[Args], rows: I32) -> None:
        if kind in (Kind.OPERATOR, Kind.ANNOTATION):
            self._append(
                Operators,
                row=rows,
                external_id=self._ints(args, _external_id),
                sequence=self._ints(args, attrgetter("sequence")),
                forward_thread=self._ints(args, attrgetter("forward_thread")),
                shapes=self._raw_column(args, attrgetter("shapes")),
                dtypes=self._raw_column(args, attrgetter("dtypes")),
                strides=self._raw_column(args, attrgetter("strides")),
                values=self._raw_column(args, attrgetter("values")),
                forward=np.full(len(rows), NONE, np.int32),
            )
            self._add_descriptions(args, rows)
        elif kind in CALL_KINDS:
            self._append(
                Calls,
                row=rows,
                correlation=self._ints(args, attrgetter("correlation")),
                external_id=self._ints(args, _external_id),
            )
        elif kind == Kind.PYTHON:
            self._append(
                PythonCalls,
                row=rows,
                id=self._ints(args, attrgetter("python_id")),
                parent_id=self._ints(args, attrgetter("python_parent_id")),
                module_id=self._ints(args, attrgetter("python_module_id")),
            )
        elif kind in _WORK_OF_DEVICE:
            self._add_device_work(args, rows)

    def _add_device_work(self, args: list[Args], rows: I32) -> None:
        nothing = np.full(len(rows), NONE, np.int32)
        self._append(
            DeviceWork,
            row=rows,
            correlation=self._ints(args, attrgetter("correlation")),
            external_id=self._ints(args, _external_id),
            bytes=self._ints(args, _bytes),
            grid=self._raw_column(args, attrgetter("grid")),
            block=self._raw_column(args, attrgetter("block")),
            graph_node=self._ints(args, attrgetter("graph_node")),
            launch=nothing,
            operator=nothing,
            annotation=nothing,
        )
        lanes = self._parts[Spans][-1]["lane"].tolist()
        for lane, arg in zip(lanes, args, strict=True):
            if lane not in self._lane_streams and arg.device is not None:
                self._lane_streams[lane] = (arg.device, arg.stream if isinstance(arg.stream, int) else NONE)
        self._add_descriptions(args, rows)

    def _add_descriptions(self, args: list[Args], rows: I32) -> None:
        picked = [index for index, arg in enumerate(args) if arg.collective is not None]
        if not picked:
            return
        some = [args[index] for index in picked]
        count = len(some)
        self._append(
            Descriptions,
            row=rows[picked],
            collective=self._intern((arg.collective or "" for arg in some), count),
            in_elements=self._ints(some, attrgetter("in_elements")),
            out_elements=self._ints(some, attrgetter("out_elements")),
            dtype=self._intern((arg.dtype or "" for arg in some), count),
            group=self._intern((arg.group or "" for arg in some), count),
            group_ranks=self._intern((arg.group_ranks or "" for arg in some), count),
            group_size=self._ints(some, attrgetter("group_size")).astype(np.int32),
            rank=self._ints(some, attrgetter("comm_rank")),
        )

    # --- other events ---

    def _add_flows(self, events: Sequence[AnyEvent], at_ns: I64) -> None:
        known = at_ns != NO_TIME
        events = [event for event, use in zip(events, known.tolist(), strict=True) if use]
        self._append(
            Flows,
            id=self._ints(events, lambda event: event.id if isinstance(event.id, int) else None),
            at_ns=at_ns[known],
            lane=self._lane_column(events, on_device=False),
            is_start=np.array([event.ph == schema.FLOW_START for event in events], np.uint8),
        )

    def _add_memory(self, events: Sequence[AnyEvent], at_ns: I64) -> None:
        picked = [
            index
            for index, event in enumerate(events)
            if event.args is not None and event.args.memory_bytes is not None and at_ns[index] != NO_TIME
        ]
        some = [events[index].args or _NO_ARGS for index in picked]
        self._append(
            MemoryMarks,
            at_ns=at_ns[picked],
            lane=self._lane_column([events[index] for index in picked], on_device=False),
            device=self._ints(some, attrgetter("memory_device")).astype(np.int32),
            bytes=self._ints(some, attrgetter("memory_bytes")),
            allocated_bytes=self._ints(some, attrgetter("allocated")),
            reserved_bytes=self._ints(some, attrgetter("reserved")),
        )

    def _add_names(self, events: Sequence[AnyEvent]) -> None:
        for event in events:
            args = event.args or _NO_ARGS
            if event.name == "process_name" and args.name:
                self._process_names.setdefault(event.pid, []).append(args.name)
            elif event.name == "thread_name" and args.name:
                self._thread_names[event.pid, event.tid] = args.name.strip()

    def _refuse_phaseless(self, events: Sequence[AnyEvent]) -> None:
        empty = sum(1 for event in events if not event.name and not event.cat and event.args is None)
        self._log.add(Reason.EMPTY_EVENT, empty)
        self._log.add(Reason.MISSING_FIELD, len(events) - empty, example="an event without ph")

    # --- columns ---

    def _append(self, table: type[Table], **columns: Column) -> None:
        self._parts.setdefault(table, []).append(columns)

    def _intern(self, values: Iterable[str], count: int) -> I32:
        texts = self._texts
        return np.fromiter((texts.setdefault(value, len(texts)) for value in values), np.int32, count)

    def _raw_column(self, args: list[Args], get: Callable[[Args], Raw]) -> I32:
        """Text ids of JSON values kept as they were written."""
        known = self._raw_texts
        ids = []
        for arg in args:
            raw = bytes(get(arg))
            if not raw:
                ids.append(NONE)
                continue
            index = known.get(raw)
            if index is None:
                text = raw.decode("utf-8", "replace")
                index = known[raw] = self._texts.setdefault(text, len(self._texts))
            ids.append(index)
        return np.array(ids, np.int32)

    def _lane_column(self, events: Sequence[AnyEvent], on_device: bool) -> Column:
        lanes = self._lanes
        return np.fromiter(
            (lanes.setdefault((event.pid, event.tid, on_device), len(lanes)) for event in events), np.int32, len(events)
        )

    def _ints(self, items: Sequence[Any], get: Callable[[Any], int | None]) -> I64:
        try:
            return np.fromiter(
                (NONE if (value := get(item)) is None else value for item in items), np.int64, len(items)
            )
        except OverflowError:
            return self._bounded_ints([get(item) for item in items])

    def _bounded_ints(self, values: list[int | None]) -> I64:
        fits = [value is not None and _INT64.min <= value <= _INT64.max for value in values]
        self._log.add(Reason.BAD_FIELD, fits.count(False) - values.count(None), example="an id beyond 64 bits")
        return np.array([value if fit else NONE for value, fit in zip(values, fits, strict=True)], np.int64)

    def finish(self) -> RawColumns:
        """The columns of everything that was added."""
        self._close_open_events()
        spans = self._table(Spans)
        return RawColumns(
            spans=spans,
            operators=self._table(Operators),
            calls=self._table(Calls),
            device_work=self._table(DeviceWork),
            python_calls=self._table(PythonCalls),
            memory=self._table(MemoryMarks),
            descriptions=self._table(Descriptions),
            flows=self._table(Flows),
            texts=self._encodable_texts(spans),
            lanes=list(self._lanes),
            lane_streams=self._lane_streams,
            process_names=self._process_names,
            thread_names=self._thread_names,
            events=dict(self._events),
        )

    def _encodable_texts(self, spans: Spans) -> list[str]:
        """All texts; half of a surrogate pair, which JSON can spell but no encoding can write, is replaced."""
        texts = list(self._texts)
        for index, text in enumerate(texts):
            if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
                texts[index] = text.encode("utf-8", "replace").decode()
                self._log.add(Reason.INVALID_UTF8, max(1, int((spans.name == index).sum())), example=texts[index])
        return texts

    def _table(self, table: type[TableType]) -> TableType:
        """All parts of a table as one, freeing each column's parts as soon as they are joined."""
        parts = self._parts.pop(table, [])
        if not parts:
            return table.empty()
        joined = {}
        for name, dtype in table.layout().items():
            pieces = [part.pop(name) for part in parts]
            joined[name] = np.concatenate(pieces).astype(dtype, copy=False)
        return table(**joined)

    def _close_open_events(self) -> None:
        """Pair begin with end events, innermost first; what has no end keeps an unknown duration."""
        open_by_lane: dict[tuple[int | str, int | str], list[tuple[AnyEvent, int]]] = {}
        done: dict[str, list[tuple[AnyEvent, int, int]]] = {}
        for event, at_ns in sorted(self._open, key=lambda pair: pair[1]):
            stack = open_by_lane.setdefault((event.pid, event.tid), [])
            if event.ph == schema.BEGIN:
                stack.append((event, at_ns))
            elif stack:
                begin, start_ns = stack.pop()
                done.setdefault(begin.cat, []).append((begin, start_ns, at_ns - start_ns))
        for stack in open_by_lane.values():
            for begin, start_ns in stack:
                done.setdefault(begin.cat, []).append((begin, start_ns, int(NO_TIME)))
        for category, triples in done.items():
            events, starts, durations = zip(*triples, strict=True)
            kind = schema.kind_of(schema.canonical_category(category))
            self._add_spans(kind, events, np.array(starts, np.int64), np.array(durations, np.int64))
        self._open = []


def _external_id(args: Args) -> int | None:
    return args.external_id if args.external_id is not None else args.external_id_2021


def _bytes(args: Args) -> int | None:
    """Bytes of a copy; ROCm writes some as strings."""
    if isinstance(args.bytes, str):
        return int(args.bytes) if args.bytes.isdecimal() and len(args.bytes) < 19 else None
    return args.bytes
