"""The timeline: what ran when, on which lane of which rank. Traces, plans and what-ifs all become this one type.

Every timed thing is one row of `spans`, ordered by start and, where starts agree, the longest first. What only some
spans have (shapes, correlation ids, collective sizes) sits in side tables whose `row` column points into `spans`.
Times are integer nanoseconds since `zero_ns`; strings are indices into `texts`; -1 says "none" in any column.
"""

from collections.abc import Mapping
from dataclasses import field
from enum import IntEnum, StrEnum
from functools import cached_property

import numpy as np

from redline.timeline.host_evidence import HostEvidence
from redline.timeline.problems import Problem
from redline.timeline.table import I32, I64, Column, Table, column, grouped
from redline.values import dataclass

NONE = -1
UNSTATED_CHANGES = "changes that its file does not state"
_FAR_NS = 2**62  # times below can be added


class Kind(IntEnum):
    """What a span is."""

    # on a thread of the host
    OPERATOR = 1
    ANNOTATION = 2  # a user's region, a profiler step, an optimizer step
    PYTHON = 3  # a Python call, from recorded stacks
    RUNTIME = 4  # CUDA or HIP runtime call
    DRIVER = 5
    # on a stream of a device
    KERNEL = 10
    COPY = 11
    SET = 12
    SYNC = 13  # a wait of a stream or of the host, or the mark of an event, recorded by the device
    DEVICE_ANNOTATION = 14
    # on either: moving data between ranks (a device kernel, or a CPU backend's work)
    COMMUNICATION = 20
    # bookkeeping of the profiler
    OVERHEAD = 30
    PROFILER = 31
    OTHER = 32


CALL_KINDS = (Kind.RUNTIME, Kind.DRIVER)
NESTED_KINDS = (Kind.OPERATOR, Kind.PYTHON, *CALL_KINDS)
BUSY_KINDS = (Kind.KERNEL, Kind.COMMUNICATION, Kind.COPY, Kind.SET)


class Waiter(IntEnum):
    """Who waits in a recorded wait, and for what."""

    STREAM_FOR_EVENT = 1  # the stream that the span is on
    HOST_FOR_EVENT = 2  # a query, too, which does not block
    HOST_FOR_STREAM = 3
    HOST_FOR_DEVICE = 4


class TimelineOrigin(StrEnum):
    """Where a timeline comes from."""

    MEASURED = "measured"
    PREDICTED = "predicted"
    ALTERED = "altered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One thread of the host or one stream of a device."""

    process: str
    thread: str
    label: str = ""
    device: int = NONE
    stream: int = NONE

    @property
    def on_device(self) -> bool:
        return self.device != NONE


class Spans(Table):
    """All timed things."""

    start_ns: I64 = column(np.int64)
    dur_ns: I64 = column(np.int64)
    kind: Column = column(np.uint8)
    name: I32 = column(np.int32, "texts")  # text
    lane: Column = column(np.int32, "lanes")
    parent: I32 = column(np.int32, "spans")  # the span that encloses it on its thread; operators, calls and Python only

    @property
    def end_ns(self) -> I64:
        return self.start_ns + self.dur_ns

    def rows_of(self, *kinds: Kind) -> I64:
        """Row numbers of these kinds, in time order; to be read only, as they are kept for who asks next."""
        if kinds not in self._rows_of:
            self._rows_of[kinds] = np.flatnonzero(np.isin(self.kind, np.array(kinds, np.uint8)))
            self._rows_of[kinds].setflags(write=False)
        return self._rows_of[kinds]

    @cached_property
    def _rows_of(self) -> dict[tuple[Kind, ...], I64]:
        return {}


class Operators(Table):
    """What the profiler knows of operators and annotations beyond their time."""

    row: I32 = column(np.int32, "spans")
    external_id: Column = column(np.int64)
    sequence: Column = column(np.int64)  # autograd sequence number
    forward_thread: Column = column(np.int64)  # > 0 in operators of the backward pass
    shapes: I32 = column(np.int32, "texts")  # text: a JSON list
    dtypes: I32 = column(np.int32, "texts")
    strides: I32 = column(np.int32, "texts")
    values: I32 = column(np.int32, "texts")  # concrete scalar arguments
    site: I32 = column(
        np.int32, "texts"
    )  # the innermost function of the script, from a stack that the operator carries
    forward: I32 = column(np.int32, "spans")  # row of the forward operator that this backward operator belongs to


class RuntimeCalls(Table):
    """Runtime and driver calls."""

    row: I32 = column(np.int32, "spans")
    correlation: Column = column(np.int64)
    external_id: Column = column(np.int64)


class DeviceWork(Table):
    """Kernels, copies, sets and waits of a device, and what on the host they belong to."""

    row: I32 = column(np.int32, "spans")
    correlation: Column = column(np.int64)
    external_id: Column = column(np.int64)
    bytes: I64 = column(np.int64)
    grid: I32 = column(np.int32, "texts")  # text: a JSON list
    block: I32 = column(np.int32, "texts")
    graph_node: Column = column(np.int64)
    launch: I32 = column(np.int32, "spans")  # row of the call that launched it
    operator: I32 = column(np.int32, "spans")  # row of the innermost operator around that call
    annotation: I32 = column(np.int32, "spans")  # row of the innermost annotation around that call


class RecordedWaits(Table):
    """Waits as the device recorded them, where the profiler was asked for them; none otherwise.

    The call that asked for one is the launch of its row in the device work.
    """

    row: I32 = column(np.int32, "spans")
    waiter: Column = column(np.uint8)  # a Waiter
    stream: I32 = column(np.int32)  # whose work is waited for; none if it is all of a device, or not known
    event: Column = column(np.int64)  # id of the CUDA event, which is used again and again
    record_correlation: Column = column(np.int64)  # of the call that recorded the event; it may be before the window
    record: I32 = column(np.int32, "spans")  # row of that call


class EventRecords(Table):
    """Calls that recorded an event on a stream, where the trace tells on which."""

    row: I32 = column(np.int32, "spans")
    stream: I32 = column(np.int32)
    event: Column = column(np.int64)
    reached: I32 = column(np.int32, "spans")  # when the device came to it, where that was recorded


class Communications(Table):
    """Spans that move data between ranks, with the profiler's metadata where it wrote any."""

    row: I32 = column(np.int32, "spans")
    collective: I32 = column(np.int32, "texts")  # text: our word, e.g. all_reduce
    in_elements: I64 = column(np.int64)
    out_elements: I64 = column(np.int64)
    dtype: I32 = column(np.int32, "texts")  # text
    group: I32 = column(np.int32, "texts")  # text
    group_ranks: I32 = column(np.int32, "texts")  # text: a JSON list
    group_size: I32 = column(np.int32)
    source: I32 = column(np.int32)  # of a send or receive: who sends, as a rank of the group; none if it is this rank
    destination: I32 = column(np.int32)
    sequence: Column = column(np.int64)  # number of the operation in its group, equal on all ranks but of sends
    described: Column = column(np.uint8)  # 1: from metadata, 0: known by its kernel's name only


class PythonCalls(Table):
    """Call-stack ids of Python spans, as the profiler gave them."""

    row: I32 = column(np.int32, "spans")
    id: Column = column(np.int64)
    parent_id: Column = column(np.int64)
    module_id: Column = column(np.int64)


class MemoryMarks(Table):
    """Allocator events: instants with the bytes allocated (or freed, negative) and the totals after."""

    at_ns: I64 = column(np.int64)
    lane: Column = column(np.int32, "lanes")
    device: Column = column(np.int32)
    bytes: I64 = column(np.int64)
    allocated_bytes: I64 = column(np.int64)
    reserved_bytes: I64 = column(np.int64)
    address: I64 = column(np.int64)  # of the block; traces before torch 1.12 do not tell


class StepWindows(Table):
    """Step windows of a rank, in time order, never overlapping."""

    start_ns: I64 = column(np.int64)
    end_ns: I64 = column(np.int64)
    label: I32 = column(np.int32, "texts")  # text


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device as the trace describes it; 0 and "" where it does not say."""

    id: int
    name: str
    memory_bytes: int = 0
    multiprocessors: int = 0


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """What a trace says of its job and its machine."""

    devices: tuple[Device, ...] = ()
    backend: str = ""
    world_size: int = 0
    group_ranks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    recorded: tuple[str, ...] = ()  # profiler options that were on: shapes, stack, memory, flops, modules
    host: str = ""
    synthetic: str = ""  # who made it up, where a trace says it is not a measurement
    changes: tuple[str, ...] = ()  # what-ifs that it was altered by, one after the other, as they were written


@dataclass(frozen=True, kw_only=True)
class Source:
    """Which file a timeline was read from, and what was in it."""

    path: str
    member: str = ""  # inside an archive
    inflated_bytes: int = 0
    events: Mapping[str, int] = field(default_factory=dict)  # of this rank, by the profiler's category
    unused: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # spans not known: category -> count, ns
    problems: tuple[Problem, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.path}!{self.member}" if self.member else self.path


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """One rank's timeline."""

    origin: TimelineOrigin
    rank: int
    rank_origin: str  # how the rank is known
    zero_ns: int  # Unix time of 0 in every *_ns column, on this rank's own clock
    texts: tuple[str, ...]
    lanes: tuple[Lane, ...]
    spans: Spans
    operators: Operators
    calls: RuntimeCalls
    device_work: DeviceWork
    waits: RecordedWaits
    event_records: EventRecords
    communications: Communications
    python_calls: PythonCalls
    memory: MemoryMarks
    steps: StepWindows
    step_anchor: str  # what the step boundaries were taken from
    metadata: Metadata
    source: Source
    evidence: HostEvidence = field(default_factory=HostEvidence)

    def text(self, index: int) -> str:
        return self.texts[index] if index >= 0 else ""

    @property
    def changes(self) -> tuple[str, ...]:
        """What an altered timeline was altered by; none of any other."""
        if self.origin is not TimelineOrigin.ALTERED:
            return ()
        return self.metadata.changes or (UNSTATED_CHANGES,)

    @cached_property
    def window_ns(self) -> tuple[int, int]:
        """First start and last end of anything that is not the profiler's own bookkeeping."""
        spans = self.spans
        work = spans.kind < Kind.OVERHEAD
        if not work.any():
            return (0, 0)
        return int(spans.start_ns[work].min()), int((spans.start_ns[work] + spans.dur_ns[work]).max())

    def rows_of_lane(self, lane: int) -> I64:
        """Spans of a lane, in time order."""
        return self._rows_by_lane.get(lane, np.empty(0, np.int64))

    @cached_property
    def _rows_by_lane(self) -> dict[int, I64]:
        return dict(grouped(self.spans.lane))

    def self_check(self) -> None:
        """What every timeline promises, as assertions."""
        sizes = {"texts": len(self.texts), "lanes": len(self.lanes), "spans": len(self.spans)}
        for name in TABLES:
            table: Table = getattr(self, name)
            table.self_check()
            for place, into in table.places().items():
                least = 0 if place == "row" else NONE
                _expect(table.within(place, least, sizes[into]), f"{name}.{place} points into {into}")
            row = table.columns().get("row")
            _expect(row is None or bool((np.diff(row) > 0).all()), f"{name}.row ascends")
        self._check_spans()
        _expect(bool(np.isin(self.waits.waiter, np.array(Waiter, np.uint8)).all()), "waiters are known")
        self.evidence.self_check()
        starts, ends = self.steps.start_ns, self.steps.end_ns
        _expect(bool((starts[1:] >= ends[:-1]).all()), "steps do not overlap")
        _expect(bool((starts <= ends).all()), "no step is negative")
        _expect(all(self.steps.within(times, -_FAR_NS, _FAR_NS) for times in ("start_ns", "end_ns")), "times fit")
        _expect(self.memory.within("at_ns", -_FAR_NS, _FAR_NS), "times fit")

    def _check_spans(self) -> None:
        spans = self.spans
        _expect(bool((np.diff(spans.start_ns) >= 0).all()), "spans are ordered by start")
        _expect(bool((spans.dur_ns >= 0).all()), "no span is negative")
        _expect(all(spans.within(times, -_FAR_NS, _FAR_NS) for times in ("start_ns", "dur_ns")), "times fit")
        _expect(bool(np.isin(spans.kind, np.array(Kind, np.uint8)).all()), "kinds are known")
        _expect(bool(((spans.name >= 0) & (spans.lane >= 0)).all()), "spans have names and lanes")
        # Whoever climbs from parent to parent arrives.
        _expect(bool((spans.parent < np.arange(len(spans))).all()), "parents come first")
        has_parent = np.flatnonzero(spans.parent >= 0)
        _expect(bool((spans.lane[has_parent] == spans.lane[spans.parent[has_parent]]).all()), "parents share the lane")


TABLES = {
    "spans": Spans,
    "operators": Operators,
    "calls": RuntimeCalls,
    "device_work": DeviceWork,
    "waits": RecordedWaits,
    "event_records": EventRecords,
    "communications": Communications,
    "python_calls": PythonCalls,
    "memory": MemoryMarks,
    "steps": StepWindows,
}


def _expect(holds: bool, promise: str) -> None:
    if not holds:
        raise AssertionError(f"broken promise of a timeline: {promise}")
