"""Decoded events to columns: one row per timed event, side tables for what only some events have."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np

from redline.timeline.problems import ProblemLog, Reason
from redline.timeline.table import I32, I64, Column, Table, column, encodable, grouped, narrowed
from redline.timeline.timeline import (
    CALL_KINDS,
    NONE,
    DeviceWork,
    EventRecords,
    Kind,
    MemoryMarks,
    Operators,
    PythonCalls,
    RecordedWaits,
    RuntimeCalls,
    Spans,
    Waiter,
)
from redline.trace import schema
from redline.trace.call_sites import SiteNumbering
from redline.trace.column_builder import (
    ROW_END,
    VALUE_END,
    GroupNumbering,
    Growing,
    LaneKey,
    LaneNumbering,
    Numbering,
    RawNumbering,
    ValueNumbering,
)
from redline.trace.schema import AnyEvent, Args
from redline.trace.times import NO_TIME, Decoded
from redline.values import dataclass

_ON_DEVICE = frozenset({Kind.KERNEL, Kind.COPY, Kind.SET, Kind.SYNC, Kind.DEVICE_ANNOTATION})
_WORK_OF_DEVICE = frozenset({Kind.KERNEL, Kind.COPY, Kind.SET, Kind.SYNC})
_INT64 = np.iinfo(np.int64)
_NO_STREAM = 2**31 - 1
_NO_ARGS = Args()


class Descriptions(Table):
    """The profiler's metadata of collectives, as it sits on operators and kernels."""

    row: I32 = column(np.int32)
    collective: I32 = column(np.int32)  # text; none where only its number is known
    in_elements: I64 = column(np.int64)
    out_elements: I64 = column(np.int64)
    dtype: I32 = column(np.int32)  # text
    group: I32 = column(np.int32)  # text
    group_ranks: I32 = column(np.int32)  # text
    group_size: I32 = column(np.int32)
    source: I32 = column(np.int32)  # rank within the group, of a send or receive
    destination: I32 = column(np.int32)
    sequence: I64 = column(np.int64)  # of the operation in its group
    rank: I64 = column(np.int64)  # of the process, within the group


class Flows(Table):
    """Ends of arrows from forward to backward operators."""

    id: I64 = column(np.int64)
    at_ns: I64 = column(np.int64)
    lane: Column = column(np.int32)
    is_start: Column = column(np.uint8)


class UnknownSpans(Table):
    """Spans of categories that are not known, or of none, until it is told whether a device did them."""

    row: I32 = column(np.int32)
    category: I32 = column(np.int32)  # text
    correlation: I64 = column(np.int64)


@dataclass(frozen=True, kw_only=True)
class RawColumns:
    """Everything kept of one document, in the order it was written; times since the file's own base."""

    spans: Spans
    operators: Operators
    calls: RuntimeCalls
    device_work: DeviceWork
    waits: RecordedWaits
    event_records: EventRecords  # rows are of the device's own marks until they are linked
    python_calls: PythonCalls
    memory: MemoryMarks
    descriptions: Descriptions
    flows: Flows
    unknown: UnknownSpans
    texts: list[str]
    lanes: list[LaneKey]
    lane_streams: dict[int, tuple[int, int]]  # lane -> device, stream, as the events say
    process_names: dict[int | str, list[str]]
    process_labels: dict[int | str, str]
    thread_names: dict[tuple[int | str, int | str], str]
    launch_ends: set[tuple[int | str, int | str]]  # processes and threads at which arrows from launches end
    events: dict[str, int]  # by category; by phase where there is none


TableType = TypeVar("TableType", bound=Table)


class Collector:
    """Takes decoded batches, gives columns. Comprehensions that name a field run several times faster than getters."""

    def __init__(self, log: ProblemLog) -> None:
        self._log = log
        self._groups = GroupNumbering()
        self._texts = Numbering[str]()
        raw_texts = RawNumbering(self._texts)
        self._arguments, self._launch_shapes = ValueNumbering(raw_texts, 4), ValueNumbering(raw_texts, 2)
        self._sites = SiteNumbering(self._texts)
        self._arrow_ids = Numbering[str]()  # of arrows whose id is a text
        self._lane_keys: list[LaneKey] = []
        self._lanes = {on_device: LaneNumbering(self._lane_keys, on_device) for on_device in (False, True)}
        self._lane_streams: dict[int, tuple[int, int]] = {}
        self._process_names: dict[int | str, list[str]] = {}
        self._process_labels: dict[int | str, str] = {}
        self._thread_names: dict[tuple[int | str, int | str], str] = {}
        self._launch_ends: set[tuple[int | str, int | str]] = set()
        self._tables: dict[type[Table], dict[str, Growing]] = {}
        self._events: Counter[str] = Counter()
        self._open: list[tuple[AnyEvent, int]] = []  # begin and end events with their times
        self._rows = 0

    def add(self, batch: Decoded) -> None:
        for phase, category, indices in self._grouped(batch):
            self._add_group(phase, category, indices, batch)

    def _grouped(self, batch: Decoded) -> Iterator[tuple[str, str, I64]]:
        """Places of the events of each phase and category, in the order in which those appeared in the file."""
        count = len(batch.events)
        if not count:
            return
        groups = self._groups
        group = np.fromiter([groups[event.ph][event.cat] for event in batch.events], np.int64, count)
        order = np.argsort(group, kind="stable")
        for indices in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
            phase, category = groups.keys_in_order[group[indices[0]]]
            yield phase, category, indices

    def _add_group(self, phase: str, category: str, indices: I64, batch: Decoded) -> None:
        category = encodable(schema.canonical_category(category))
        events = list(map(batch.events.__getitem__, indices.tolist()))
        start_ns, dur_ns = batch.start_ns[indices], batch.dur_ns[indices]
        self._events[category or (f"ph:{encodable(phase)}" if phase else "ph:")] += len(events)
        if phase == schema.COMPLETE:
            if category == schema.MTIA_WORK:
                self._add_by_name(events, start_ns, dur_ns)
            elif category != schema.DRAWN_CATEGORY:
                self._add_spans(schema.kind_of(category), events, start_ns, dur_ns, category)
        elif phase in (schema.BEGIN, schema.END):
            timed = [(event, at) for event, at in zip(events, start_ns.tolist(), strict=True) if at != NO_TIME]
            self._log.add(Reason.MISSING_FIELD, len(events) - len(timed), example="a begin or end without ts")
            self._open += timed
        elif phase in schema.FLOW_PHASES:
            if category == schema.FLOW_FORWARD_BACKWARD:
                self._add_flows(events, start_ns)
            elif category == schema.FLOW_LAUNCH and phase == schema.FLOW_END:
                self._launch_ends.update({(event.pid, event.tid) for event in events})
        elif phase in schema.INSTANT_PHASES:
            self._add_memory(events, start_ns)
        elif phase == schema.METADATA:
            self._add_names(events)
        elif phase == "":
            self._refuse_phaseless(events)
        elif phase not in schema.QUIET_PHASES:
            self._log.add(Reason.UNKNOWN_PHASE, len(events), example=f"phase {phase[:8]!r}")

    # --- timed events ---

    def _add_by_name(self, events: Sequence[AnyEvent], start_ns: I64, dur_ns: I64) -> None:
        """Device work of one category, of which only names tell what it is."""
        kinds = np.array([schema.kind_of_device_work(event.name) for event in events])
        for kind, places in grouped(kinds):
            some = [events[place] for place in places.tolist()]
            self._add_spans(Kind(kind), some, start_ns[places], dur_ns[places])

    def _add_spans(
        self, kind: Kind, events: Sequence[AnyEvent], start_ns: I64, dur_ns: I64, category: str = ""
    ) -> None:
        usable = start_ns != NO_TIME
        names = [event.name for event in events]
        if not usable.all() or "" in names:
            usable &= np.array(list(map(bool, names)))
            self._log.add(Reason.MISSING_FIELD, int((~usable).sum()), example="a timed event without name or ts")
            events = [event for event, use in zip(events, usable.tolist(), strict=True) if use]
            names = [event.name for event in events]
            start_ns, dur_ns = start_ns[usable], dur_ns[usable]
        count = len(events)
        if not count:
            return
        rows = np.arange(self._rows, self._rows + count, dtype=np.int32)
        self._rows += count
        lanes = self._lane_column(events, kind in _ON_DEVICE)
        self._append(
            Spans,
            start_ns=start_ns,
            dur_ns=dur_ns,
            kind=np.full(count, kind, np.uint8),
            name=self._intern(names),
            lane=lanes,
        )
        args = [event.args or _NO_ARGS for event in events]
        self._add_arguments(kind, args, rows, lanes)
        if kind == Kind.SYNC:
            self._add_waits(names, args, rows)
        elif kind == Kind.OTHER:
            categories = np.full(count, self._texts[category], np.int32)
            correlation = self._ints([arg.correlation for arg in args])
            self._append(UnknownSpans, row=rows, category=categories, correlation=correlation)

    def _add_arguments(self, kind: Kind, args: list[Args], rows: I32, lanes: Column) -> None:
        if kind in (Kind.OPERATOR, Kind.ANNOTATION):
            shapes, dtypes, strides, values = self._argument_texts(args)
            self._append(
                Operators,
                row=rows,
                external_id=self._external_ids(args),
                sequence=self._ints([arg.sequence for arg in args]),
                forward_thread=self._ints([arg.forward_thread for arg in args]),
                shapes=shapes,
                dtypes=dtypes,
                strides=strides,
                values=values,
                site=self._sites_of(args),
            )
            self._add_descriptions(args, rows)
        elif kind in CALL_KINDS:
            self._append(
                RuntimeCalls,
                row=rows,
                correlation=self._ints([arg.correlation for arg in args]),
                external_id=self._external_ids(args),
            )
        elif kind == Kind.PYTHON:
            self._append(
                PythonCalls,
                row=rows,
                id=self._ints([arg.python_id for arg in args]),
                parent_id=self._ints([arg.python_parent_id for arg in args]),
                module_id=self._ints([arg.python_module_id for arg in args]),
            )
        elif kind in _WORK_OF_DEVICE:
            self._add_device_work(args, rows, lanes)

    def _sites_of(self, args: list[Args]) -> I32:
        stacks = [arg.call_stack for arg in args]
        if not any(stacks):
            return np.full(len(args), NONE, np.int32)
        return np.fromiter([self._sites[stack or ""] for stack in stacks], np.int32, len(stacks))

    def _add_device_work(self, args: list[Args], rows: I32, lanes: Column) -> None:
        pairs = [part for arg in args for part in (arg.grid, VALUE_END, arg.block, ROW_END)]
        grid, block = self._launch_shapes.columns(pairs, len(args))
        self._append(
            DeviceWork,
            row=rows,
            correlation=self._ints([arg.correlation for arg in args]),
            external_id=self._external_ids(args),
            bytes=self._ints([_bytes(arg) if arg.bytes is not None else NONE for arg in args]),
            grid=grid,
            block=block,
            graph_node=self._ints([arg.graph_node for arg in args]),
        )
        if not self._lane_streams.keys() >= set(lanes.tolist()):
            self._add_streams(args, lanes)
        self._add_descriptions(args, rows)

    def _add_waits(self, names: list[str], args: list[Args], rows: I32) -> None:
        waiters = [schema.WAITER_OF.get(name, 0) for name in names]
        picked = np.flatnonzero(waiters)
        some = [args[index] for index in picked.tolist()]
        self._append(
            RecordedWaits,
            row=rows[picked],
            waiter=np.array(waiters, np.uint8)[picked],
            stream=self._streams([_waited_stream(names[i], args[i]) for i in picked.tolist()]),
            event=self._ints([arg.waited_event for arg in some]),
            record_correlation=self._ints([arg.waited_record for arg in some]),
        )
        marks = [index for index, name in enumerate(names) if name == schema.EVENT_REACHED]
        self._append(
            EventRecords,
            row=rows[marks],
            stream=self._streams([args[index].stream for index in marks]),
            event=self._ints([args[index].recorded_event for index in marks]),
        )

    def _streams(self, streams: Sequence[int | str | None]) -> I32:
        """-1 where there is none: CUPTI writes the largest number of 32 bits for that."""
        known = [stream if isinstance(stream, int) and 0 <= stream < _NO_STREAM else NONE for stream in streams]
        return np.array(known, np.int32)

    def _add_streams(self, args: list[Args], lanes: Column) -> None:
        for lane, arg in zip(lanes.tolist(), args, strict=True):
            if lane not in self._lane_streams and arg.device is not None and arg.device != NONE:
                self._lane_streams[lane] = (arg.device, arg.stream if isinstance(arg.stream, int) else NONE)

    def _add_descriptions(self, args: list[Args], rows: I32) -> None:
        picked = [
            index
            for index, arg in enumerate(args)
            if arg.collective is not None or arg.collective_number != NONE  # the latter alone in files of ours
        ]
        if not picked:
            return
        some = [args[index] for index in picked]
        self._append(
            Descriptions,
            row=rows[picked],
            collective=np.array(
                [NONE if arg.collective is None else self._texts[arg.collective] for arg in some], np.int32
            ),
            in_elements=self._ints([arg.in_elements for arg in some]),
            out_elements=self._ints([arg.out_elements for arg in some]),
            dtype=self._intern([arg.dtype or "" for arg in some]),
            group=self._intern([arg.group or "" for arg in some]),
            group_ranks=self._intern([arg.group_ranks or "" for arg in some]),
            group_size=self._ints([arg.group_size for arg in some]).astype(np.int32),
            source=self._ints([arg.source_rank for arg in some]).astype(np.int32),
            destination=self._ints([arg.destination_rank for arg in some]).astype(np.int32),
            sequence=self._ints([arg.collective_number for arg in some]),
            rank=self._ints([arg.comm_rank for arg in some]),
        )

    # --- other events ---

    def _add_flows(self, events: Sequence[AnyEvent], at_ns: I64) -> None:
        known = at_ns != NO_TIME
        if not known.all():
            events = [event for event, use in zip(events, known.tolist(), strict=True) if use]
        ids = [event.id for event in events]
        self._append(
            Flows,
            id=self._ints([arrow_id if isinstance(arrow_id, int) else self._arrow_ids[arrow_id] for arrow_id in ids]),
            at_ns=at_ns[known],
            lane=self._lane_column(events, on_device=False),
            is_start=np.array([event.ph == schema.FLOW_START for event in events], np.uint8),
        )

    def _add_memory(self, events: Sequence[AnyEvent], at_ns: I64) -> None:
        picked = [
            index
            for index, event in enumerate(events)
            if event.args is not None and event.args.memory_bytes not in (None, NONE) and at_ns[index] != NO_TIME
        ]
        some = [events[index].args or _NO_ARGS for index in picked]
        self._append(
            MemoryMarks,
            at_ns=at_ns[picked],
            lane=self._lane_column([events[index] for index in picked], on_device=False),
            device=self._ints([arg.memory_device for arg in some]).astype(np.int32),
            bytes=self._ints([arg.memory_bytes for arg in some]),
            allocated_bytes=self._ints([arg.allocated for arg in some]),
            reserved_bytes=self._ints([arg.reserved for arg in some]),
            address=self._ints([arg.address for arg in some]),
        )

    def _add_names(self, events: Sequence[AnyEvent]) -> None:
        for event in events:
            args = event.args or _NO_ARGS
            if event.name == "process_name" and args.name:
                self._process_names.setdefault(event.pid, []).append(args.name)
            elif event.name == "process_labels" and args.labels:
                self._process_labels[event.pid] = args.labels
            elif event.name == "thread_name" and args.name:
                self._thread_names[event.pid, event.tid] = encodable(args.name.strip())

    def _refuse_phaseless(self, events: Sequence[AnyEvent]) -> None:
        empty = sum(1 for event in events if not event.name and not event.cat and event.args is None)
        self._log.add(Reason.EMPTY_EVENT, empty)
        self._log.add(Reason.MISSING_FIELD, len(events) - empty, example="an event without ph")

    # --- columns ---

    def _append(self, table: type[Table], **columns: Column) -> None:
        growing = self._tables.setdefault(table, {})
        for name, values in columns.items():
            if name not in growing:
                growing[name] = Growing(values.dtype)
            growing[name].append(values)

    def _intern(self, values: list[str]) -> I32:
        return np.fromiter(map(self._texts.__getitem__, values), np.int32, len(values))

    def _argument_texts(self, args: list[Args]) -> Column:
        """Text ids of shapes, types, strides and values, kept as they were written."""
        parts = [
            part
            for arg in args
            for part in (arg.shapes, VALUE_END, arg.dtypes, VALUE_END, arg.strides, VALUE_END, arg.values, ROW_END)
        ]
        return self._arguments.columns(parts, len(args))

    def _lane_column(self, events: Sequence[AnyEvent], on_device: bool) -> Column:
        lanes = self._lanes[on_device]
        return np.fromiter([lanes[event.pid][event.tid] for event in events], np.int32, len(events))

    def _ints(self, values: Sequence[int | None]) -> Column:
        try:
            return narrowed(np.fromiter(values, np.int64, len(values)))
        except TypeError:  # a null
            return self._ints([NONE if value is None else value for value in values])
        except OverflowError:  # more than 64 bits
            return self._bounded_ints(values)

    def _bounded_ints(self, values: Sequence[int | None]) -> Column:
        fits = [value is not None and _INT64.min <= value <= _INT64.max for value in values]
        self._log.add(Reason.BAD_FIELD, fits.count(False) - values.count(None), example="an id beyond 64 bits")
        whole = [value if fit else NONE for value, fit in zip(values, fits, strict=True)]
        return narrowed(np.array(whole, np.int64))

    def _external_ids(self, args: list[Args]) -> Column:
        ids = self._ints([arg.external_id for arg in args])
        if (ids != NONE).any():
            return ids
        return self._ints([arg.external_id_2021 for arg in args])

    def finish(self) -> RawColumns:
        """The columns of everything that was added."""
        self._close_open_events()
        spans = self._table(Spans)
        return RawColumns(
            spans=spans,
            operators=self._table(Operators),
            calls=self._table(RuntimeCalls),
            device_work=self._table(DeviceWork),
            waits=self._table(RecordedWaits),
            event_records=self._table(EventRecords),
            python_calls=self._table(PythonCalls),
            memory=self._table(MemoryMarks),
            descriptions=self._table(Descriptions),
            flows=self._table(Flows),
            unknown=self._table(UnknownSpans),
            texts=self._encodable_texts(spans),
            lanes=[
                (_encodable(process), _encodable(thread), on_device) for process, thread, on_device in self._lane_keys
            ],
            lane_streams=self._lane_streams,
            process_names=self._process_names,
            process_labels=self._process_labels,
            thread_names=self._thread_names,
            launch_ends=self._launch_ends,
            events=dict(self._events),
        )

    def _encodable_texts(self, spans: Spans) -> list[str]:
        texts = list(self._texts)
        for index, text in enumerate(texts):
            texts[index] = encodable(text)
            if texts[index] != text:
                self._log.add(Reason.INVALID_UTF8, max(1, int((spans.name == index).sum())), example=texts[index])
        return texts

    def _table(self, table: type[TableType]) -> TableType:
        """A table of everything appended to it; columns that linking will fill are none yet."""
        growing = self._tables.pop(table, None)
        if growing is None:
            return table.empty()
        columns = {name: column.finish() for name, column in growing.items()}
        count = len(next(iter(columns.values())))
        missing = {name: np.full(count, NONE, kind) for name, kind in table.layout().items() if name not in columns}
        return table(**columns, **missing)

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
            else:
                self._log.add(Reason.MISSING_FIELD, example="an end without its begin")
        for stack in open_by_lane.values():
            for begin, start_ns in stack:
                done.setdefault(begin.cat, []).append((begin, start_ns, NO_TIME))
        for category, triples in done.items():
            events, starts, durations = zip(*triples, strict=True)
            canonical = encodable(schema.canonical_category(category))
            times = np.array(starts, np.int64), np.array(durations, np.int64)
            self._add_spans(schema.kind_of(canonical), events, *times, canonical)
        self._open = []


def _encodable(key: int | str) -> int | str:
    return encodable(key) if isinstance(key, str) else key


def _waited_stream(name: str, args: Args) -> int | str | None:
    """The stream that a wait is for: of a wait for a stream it is the span's own."""
    return args.stream if schema.WAITER_OF[name] is Waiter.HOST_FOR_STREAM else args.waited_stream


def _bytes(args: Args) -> int:
    """Bytes of a copy; ROCm writes some as strings."""
    if isinstance(args.bytes, str):
        return int(args.bytes) if args.bytes.isdecimal() and len(args.bytes) < 19 else NONE
    return NONE if args.bytes is None else args.bytes
