"""Read a memory snapshot: one file to its columns, under limits; what is complete of a cut one is used."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from redline.errors import InputError, NotATraceError, RefusedInputError
from redline.timeline.problems import ProblemLog, Reason
from redline.trace.inflate import Limits, Readable, contents
from redline.trace.snapshot.plain_pickle import BrokenPickle, ForbiddenPickle, PlainPickle
from redline.trace.snapshot.snapshot import I64, AllocatorAction, BlockState, BlockTable, SegmentTable, Snapshot
from redline.trace.snapshot.snapshot_rows import SEGMENTS, SETTINGS, TRACES, SnapshotRows

MOST_BYTES = 1 << 30
_LIMITS = Limits(inflated_bytes=MOST_BYTES)
_ADVICE = "give a file that torch.cuda.memory._dump_snapshot wrote"


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
