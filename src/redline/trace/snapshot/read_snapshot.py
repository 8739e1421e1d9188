"""Read a memory snapshot: one file to its columns, under limits; what is complete of a cut one is used."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from redline.errors import InputError, NotATraceError, RefusedInputError
from redline.timeline.problems import ProblemLog, Reason
from redline.timeline.table import Table, encodable
from redline.trace.inflate import Limits, Readable, contents
from redline.trace.snapshot.plain_pickle import BrokenPickle, ForbiddenPickle, PlainPickle, numbers_of, text_of
from redline.trace.snapshot.snapshot import (
    I64,
    NO_STACK,
    AllocatorAction,
    AllocatorEvents,
    Annotation,
    BlockState,
    BlockTable,
    SegmentTable,
    Snapshot,
    StackFrame,
)

MOST_BYTES = 1 << 30
_LIMITS = Limits(inflated_bytes=MOST_BYTES)
_ADVICE = "give a file that torch.cuda.memory._dump_snapshot wrote"
_BATCH_ROWS = 1 << 16
_MOST_SHAPES = 1000  # of dicts, by their keys
_T = TypeVar("_T", bound=Table)
_RowOf = Callable[[Any], object]
_Shape = tuple[Callable[[Sequence[object]], Any], _RowOf | None]

SEGMENTS, TRACES, SETTINGS = "segments", "device_traces", "allocator_settings"
_EVENT = ("action", "addr", "size", "stream", "time_us", "device_free", "frames")
_BLOCK = ("address", "size", "requested_size", "state", "frames")
_SEGMENT = (
    "device", "address", "total_size", "allocated_size", "stream", "segment_type", "is_expandable", "blocks",
)  # fmt: skip
_FRAME = ("name", "filename", "line")
_ANNOTATION = ("stage", "name", "device", "time_us")
_ACTIONS = {action.name.lower(): int(action) for action in AllocatorAction}
_STATES = {
    "inactive": BlockState.INACTIVE,
    "active_allocated": BlockState.ALLOCATED,
    "active_pending_free": BlockState.PENDING_FREE,
    "active_awaiting_free": BlockState.PENDING_FREE,
}


class FrameRow(int):
    """A frame, by its row."""


class EventRow(int):
    """An event of the allocator, by its row."""


class BlockRow(int):
    """A block, by its row."""


class SegmentRow(int):
    """A segment, by its row."""


class StackRow(int):
    """A list of frames, by its row."""


class SnapshotRows:
    """Takes the dicts of a snapshot one by one, as its unpickler completes them."""

    def __init__(self) -> None:
        self.frames: list[StackFrame] = []
        self.stacks: list[tuple[int, ...]] = []
        self.annotations: list[Annotation] = []
        self._stack_rows: dict[tuple[int, ...], StackRow] = {}
        self._seen_lists: dict[int, tuple[object, StackRow]] = {}  # with the list, so that its id stays its own
        self._events = _Batches(6)
        self._blocks = _Batches(5)
        self._segments = _Batches(7)
        self._blocks_of: list[list[object]] = []
        self._shapes: dict[tuple[object, ...], _Shape] = {}

    # --- dicts and lists, as the unpickler hands them over ------------------------------------------------------------

    def on_dict(self, keys: Sequence[object], values: list[object]) -> object:
        """A row in the place of a dict that is one; others stay dicts."""
        if any(type(key) is not str for key in keys):
            raise BrokenPickle("a key that is no text")
        getter, row_of = self._shapes.get(tuple(keys)) or self._new_shape(tuple(keys))
        if row_of is None:
            return dict(zip(keys, values, strict=True))
        values.append(0)  # what a field that is not there is taken from
        return row_of(getter(values))

    def wanted_of(self, keys: Sequence[object]) -> Collection[object]:
        is_event = all(type(key) is str for key in keys) and {"action", "size", "addr", "frames"} <= set(keys)
        return [key for key in keys if key in _EVENT] if is_event and len(set(keys)) == len(keys) else ()

    def on_rows(self, keys: Sequence[object], columns: Sequence[Sequence[object]]) -> Iterable[object]:
        """Events, which most of a large snapshot is made of."""
        of = dict(zip(keys, columns, strict=True))
        zeros = (0,) * len(columns[0])
        actions = list(map(_text, of["action"]))
        code_of = {action: self._action(action) for action in set(actions)}
        codes = [code_of[action] for action in actions]
        stacks = [int(item) if type(item) is StackRow else self._stack_of(item) for item in of["frames"]]
        first = self._events.add_all((codes, *(of.get(name, zeros) for name in _EVENT[1:5]), stacks))
        return [range(first, first + len(codes))]

    def _action(self, action: object) -> int:
        return _ACTIONS.get(_text(action), _ACTIONS["other"])

    def _new_shape(self, keys: tuple[object, ...]) -> _Shape:
        kinds: tuple[tuple[_RowOf, set[str], tuple[str, ...]], ...] = (
            (self._event, {"action", "size"}, _EVENT),
            (self._segment, {"total_size", "blocks"}, _SEGMENT),
            (self._block, {"state", "size"}, _BLOCK),
            (self._frame, {"filename", "line", "name"}, _FRAME),
            (self._annotation, {"stage", "time_us"}, _ANNOTATION),
        )
        row_of, fields = next(((row, fields) for row, marks, fields in kinds if marks <= set(keys)), (None, _EVENT))
        places = [keys.index(name) if name in keys else -1 for name in fields]
        shape: _Shape = (itemgetter(*places), row_of)
        if len(self._shapes) < _MOST_SHAPES:
            self._shapes[keys] = shape
        return shape

    def on_gets(self, items: list[object]) -> object:
        """A list of frames is a stack; other lists stay what they are."""
        return self._stack(items) if all(type(item) is FrameRow for item in items) else items

    def _event(self, values: tuple[object, ...]) -> EventRow:
        action, address, size, stream, time_us, device_free, frames = values
        code = self._action(action)
        where = device_free if code == AllocatorAction.OOM else address
        return EventRow(self._events.add((code, where, size, stream, time_us, self._stack_of(frames))))

    def _block(self, values: tuple[object, ...]) -> BlockRow:
        address, size, requested, state, frames = values
        code = _STATES.get(state) if type(state) is str else None
        if code is None:
            raise BrokenPickle("a block in a state that torch does not know")
        return BlockRow(self._blocks.add((address, size, requested or size, int(code), self._stack_of(frames))))

    def _segment(self, values: tuple[object, ...]) -> SegmentRow:
        device, address, size, allocated, stream, kind, expandable, blocks = values
        if type(blocks) is not list:
            raise BrokenPickle("a segment without blocks")
        self._blocks_of.append(blocks)
        row = (device, address, size, allocated, stream, int(kind == "small"), int(expandable is True))
        return SegmentRow(self._segments.add(row))

    def _frame(self, values: tuple[object, ...]) -> FrameRow:
        name, file, line = values
        if type(name) is not str or type(file) is not str:
            raise BrokenPickle("a frame without a name")
        frame = StackFrame(encodable(name), encodable(file), line if type(line) is int else 0)
        self.frames.append(frame)
        return FrameRow(len(self.frames) - 1)

    def _annotation(self, values: tuple[object, ...]) -> None:
        stage, name, device, time_us = values
        if type(name) is str and type(device) is int and type(time_us) is int:
            self.annotations.append(Annotation(encodable(name), device, time_us, stage == "START"))

    # --- stacks -------------------------------------------------------------------------------------------------------

    def _stack_of(self, frames: object) -> int:
        """The row of a stack; a list that several events share is looked at once."""
        if type(frames) is StackRow:
            return int(frames)
        if type(frames) is not list or not frames:
            return NO_STACK
        seen = self._seen_lists.get(id(frames))
        if seen is None:
            if any(type(item) is not FrameRow for item in frames):
                raise BrokenPickle("a stack of what are no frames")
            seen = self._seen_lists[id(frames)] = (frames, self._stack(frames))
        return int(seen[1])

    def _stack(self, items: Iterable[object]) -> StackRow:
        rows = tuple(int(item) for item in items)  # type: ignore[call-overload]
        row = self._stack_rows.get(rows)
        if row is None:
            row = self._stack_rows[rows] = StackRow(len(self.stacks))
            self.stacks.append(rows)
        return row

    # --- columns ------------------------------------------------------------------------------------------------------

    def segments(self, listed: Sequence[object]) -> SegmentTable:
        """BrokenPickle where the list is not that of all segments."""
        _each_once(listed, SegmentRow, len(self._blocks_of))
        return _table(SegmentTable, self._segments.columns())

    def blocks(self) -> BlockTable:
        address, size, requested, state, stack = self._blocks.columns()
        listed = [block for blocks in self._blocks_of for block in blocks]
        rows = _each_once(listed, BlockRow, len(address))
        segment = np.repeat(np.arange(len(self._blocks_of)), [len(blocks) for blocks in self._blocks_of])
        return _table(BlockTable, (segment, *(values[rows] for values in (address, size, requested, state, stack))))

    def events(self, per_device: Sequence[object], *, is_whole: bool) -> AllocatorEvents:
        """Of all devices, one after the other; of a file that is cut, what became rows."""
        listed = [_event_rows(events if type(events) is list else [], is_whole=is_whole) for events in per_device]
        columns = self._events.columns()
        rows = np.concatenate([np.empty(0, np.int64), *listed])
        if is_whole and len(rows) != len(columns[0]):
            raise BrokenPickle(f"a list of {len(rows):,} where {len(columns[0]):,} were written")
        if len(np.unique(rows)) < len(rows):
            raise BrokenPickle("a row that is listed twice")
        device = np.repeat(np.arange(len(listed)), [len(of_device) for of_device in listed])
        return _table(AllocatorEvents, (device, *(values[rows] for values in columns)))


def _event_rows(items: Sequence[object], *, is_whole: bool) -> I64:
    """Rows that a list of events names: one by one, or as ranges of those that were matched at once."""
    parts = [np.empty(0, np.int64)]
    for item in items:
        if type(item) is range:
            parts.append(np.arange(item.start, item.stop))
        elif type(item) is EventRow:
            parts.append(np.array([int(item)]))
        elif is_whole:
            raise BrokenPickle("an event that is none")
    return np.concatenate(parts)


def _each_once(listed: Sequence[object], kind: type[int], count: int) -> I64:
    """The rows that a list names, every one once: a row in two places would be counted twice."""
    if len(listed) != count or any(type(item) is not kind for item in listed):
        raise BrokenPickle(f"a list of {len(listed):,} where {count:,} were written")
    rows = np.fromiter(listed, np.int64, count)
    if len(np.unique(rows)) < count:
        raise BrokenPickle("a row that is listed twice")
    return rows


def _table(kind: type[_T], columns: Sequence[I64]) -> _T:
    return kind(**dict(zip(kind.layout(), columns, strict=True)))


def _text(value: object) -> str:
    if type(value) is not str:
        raise BrokenPickle("an action that is no text")
    return value


class _Batches:
    """Rows of whole numbers, by column; what is complete is held as arrays."""

    def __init__(self, width: int) -> None:
        self._pending: list[list[object]] = [[] for _column in range(width)]
        self._kinds: list[type] = [int] * width  # of the last value of each column, also where that is in an array
        self._whole: list[I64] = []
        self._before = 0

    def add(self, row: tuple[object, ...]) -> int:
        """Its number. A number among texts becomes one too, as a column of one kind is read several times faster."""
        columns = zip(self._kinds, row, strict=True)
        return self.add_all([[text_of(value) if kind is bytes else value] for kind, value in columns])

    def add_all(self, columns: Sequence[Sequence[object]]) -> int:
        """Many rows at once; the number of the first."""
        first = self._before + len(self._pending[0])
        for pending, column in zip(self._pending, columns, strict=True):
            pending.extend(column)
        self._kinds = [type(column[-1]) for column in columns]
        if len(self._pending[0]) >= _BATCH_ROWS:
            self._flush()
        return first

    def _flush(self) -> None:
        self._whole.append(np.array([_numbers(column) for column in self._pending]))
        self._before += len(self._pending[0])
        for column in self._pending:
            column.clear()

    def columns(self) -> tuple[I64, ...]:
        if self._pending[0]:
            self._flush()
        if not self._whole:
            return tuple(np.empty(0, np.int64) for _column in self._pending)
        return tuple(np.concatenate(parts) for parts in zip(*self._whole, strict=True))


def _numbers(values: Sequence[object]) -> I64:
    """NumPy would also take truths, fractions and digits in quotes for whole numbers."""
    kinds = set(map(type, values))
    if kinds == {bytes}:
        return numbers_of(values)  # type: ignore[arg-type]
    if not kinds <= {int, bytes}:
        raise BrokenPickle("a field that should be a whole number is not one")
    if bytes in kinds:
        left = iter(numbers_of([value for value in values if type(value) is bytes]).tolist())
        values = [next(left) if type(value) is bytes else value for value in values]
    try:
        return np.array(values, np.int64)
    except OverflowError as error:
        raise BrokenPickle("a number of more than 64 bits") from error


def looks_like_snapshot(path: Path) -> bool:
    """Whether a file begins as a pickle; InputError where it cannot be opened."""
    try:
        for content in contents(path, _LIMITS):
            return content.stream.read(1) == b"\x80"
    except OSError:
        return False
    return False


def read_snapshot(path: Path) -> Snapshot:
    """InputError, in one line, where the file is no snapshot, wants to run code, or its blocks are damaged."""
    try:
        for content in contents(path, _LIMITS):
            return _parsed(_whole(content.stream, content.name), content.name, content.log)
    except OSError as error:  # opening has its own message; reading may still fail
        raise InputError(f"{path}: cannot be read ({error.strerror or error}).") from error
    raise NotATraceError(f"{path}: the file is empty; {_ADVICE}.")


def _whole(stream: Readable, name: str) -> bytes:
    pieces, total = [], 0
    while piece := stream.read(1 << 20):
        pieces.append(piece)
        total += len(piece)
        if total > MOST_BYTES:
            raise RefusedInputError(
                f"{name}: above 1 GiB; not read. Record fewer events: _record_memory_history(max_entries=100000)."
            )
    return b"".join(pieces)


def _parsed(data: bytes, name: str, log: ProblemLog) -> Snapshot:
    rows = SnapshotRows()
    pickle = PlainPickle(data, rows)
    is_whole = True
    try:
        top = pickle.run()
        if type(top) is not dict or SEGMENTS not in top:
            raise NotATraceError(f"{name}: a pickle, but not a memory snapshot; {_ADVICE}.")
    except ForbiddenPickle as error:
        raise RefusedInputError(f"{name}: not a memory snapshot: {error}; nothing of it was run.") from error
    except BrokenPickle as error:
        top, is_whole = pickle.salvaged(), False
        if TRACES not in top:  # it comes after the segments, so they are whole if it has begun
            raise NotATraceError(f"{name}: not a whole memory snapshot: {error}; {_ADVICE}.") from error
        log.add(Reason.TRUNCATED_FILE, offset=pickle.at, example=str(error))
    try:
        return _made(top, rows, name, log, is_whole=is_whole)
    except BrokenPickle as error:
        raise NotATraceError(f"{name}: a damaged memory snapshot: {error}; record it again.") from error


def _made(top: dict[str, object], rows: SnapshotRows, name: str, log: ProblemLog, *, is_whole: bool) -> Snapshot:
    segments = rows.segments(_list(top, SEGMENTS))
    blocks = rows.blocks()
    events = rows.events(_list(top, TRACES), is_whole=is_whole)
    if not blocks.address.any():  # the first versions leave it to be counted
        blocks = replace(blocks, address=_addresses(segments, blocks))
    _check(segments, blocks)
    log.add(Reason.UNKNOWN_ALLOCATOR_ACTION, int((events.action == AllocatorAction.OTHER).sum()))
    settings = top.get(SETTINGS)
    return Snapshot(
        name=name,
        segments=segments,
        blocks=blocks,
        events=events,
        frames=tuple(rows.frames),
        stacks=tuple(rows.stacks),
        annotations=tuple(rows.annotations),
        settings={key: str(value)[:200] for key, value in settings.items() if isinstance(value, str | int | float)}
        if type(settings) is dict
        else {},
        history_is_whole=is_whole,
        problems=log.freeze(),
    )


def _list(top: dict[str, object], key: str) -> list[object]:
    value = top.get(key, [])
    if type(value) is not list:
        raise BrokenPickle(f"{key} is no list")
    return value


def _check(segments: SegmentTable, blocks: BlockTable) -> None:
    """Blocks fill their segments without gaps, and those in use are as large as the segment says."""
    count = len(segments)
    if (blocks.size_bytes <= 0).any() or (segments.size_bytes <= 0).any() or (segments.size_bytes >= 1 << 50).any():
        raise BrokenPickle("a block or a segment without a size")
    in_use = blocks.state != BlockState.INACTIVE
    if (blocks.size_bytes >= 1 << 50).any() or (blocks.requested_bytes[in_use] > blocks.size_bytes[in_use]).any():
        raise BrokenPickle("a block that asked for more than it is")
    if (_sums(blocks.size_bytes, blocks.segment, count) != segments.size_bytes).any():
        raise BrokenPickle("blocks that do not add up to their segment")
    used = np.where(blocks.state == BlockState.ALLOCATED, blocks.size_bytes, 0)
    if (_sums(used, blocks.segment, count) != segments.allocated_bytes).any():
        raise BrokenPickle("allocated blocks that do not add up to what their segment says")
    if (blocks.address != _addresses(segments, blocks)).any():
        raise BrokenPickle("blocks that do not follow one another in their segment")
    order = np.lexsort((segments.address, segments.device))
    ends = (segments.address + segments.size_bytes)[order]
    same = np.diff(segments.device[order]) == 0
    if (same & (ends[:-1] > segments.address[order][1:])).any():
        raise BrokenPickle("segments that overlap")


def _addresses(segments: SegmentTable, blocks: BlockTable) -> I64:
    """Where blocks lie if each follows the one before in its segment."""
    starts = np.cumsum(blocks.size_bytes) - blocks.size_bytes
    firsts = np.searchsorted(blocks.segment, np.arange(len(segments)))
    addresses: I64 = segments.address[blocks.segment] + starts - starts[firsts][blocks.segment]
    return addresses


def _sums(values: I64, groups: I64, count: int) -> I64:
    totals = np.zeros(count, np.int64)
    np.add.at(totals, groups, values)
    return totals
