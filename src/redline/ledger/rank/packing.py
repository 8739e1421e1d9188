"""Columns and rows as bytes: as a file holds them, and memory those of thousands of ranks until they are needed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TypeVar, overload

import msgspec
import numpy as np
import zstandard

from redline.timeline.intervals import Intervals
from redline.timeline.table import Column, narrowed
from redline.values import dataclass

Row = TypeVar("Row")
_LEVEL = 1  # of compression in memory: as fast as it gets


def packed(rows: Column) -> bytes:
    """Rows of equal length: the first of each, then the differences of neighbours, in 32 bits where all of them fit."""
    return _packed(rows[:, :1], narrowed(np.diff(rows, axis=1).reshape(-1)))


def packed_small(rows: Column) -> bytes:
    """The same, in as few bits as all differences fit into: for memory."""
    steps = np.diff(rows, axis=1).reshape(-1)
    least, most = int(steps.min(initial=0)), int(steps.max(initial=0))
    fits = [kind for kind in (np.int8, np.int16, np.int32) if np.iinfo(kind).min <= least <= most <= np.iinfo(kind).max]
    return _packed(rows[:, :1], steps.astype(fits[0]) if fits else steps)


def _packed(first: Column, steps: Column) -> bytes:
    little = np.ascontiguousarray(steps, steps.dtype.newbyteorder("<"))
    return bytes([steps.itemsize]) + first.astype("<i8").tobytes() + little.tobytes()


def unpacked(data: bytes, rows: int) -> Column:
    if len(data) == 1:
        return np.empty((rows, 0), np.int64)
    edge = 1 + 8 * rows
    first = np.frombuffer(data[1:edge], "<i8").reshape(rows, 1)
    steps = np.frombuffer(data[edge:], f"<i{data[0]}").reshape(rows, -1)
    return np.cumsum(np.concatenate([first, steps], axis=1), axis=1, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class PackedIntervals:
    """A set of instants in a third of the memory."""

    data: bytes

    @classmethod
    def of(cls, time: Intervals) -> "PackedIntervals":
        return cls(squeezed(packed_small(np.vstack([time.start, time.end]))))

    def unpacked(self) -> Intervals:
        return Intervals(*unpacked(unsqueezed(self.data), 2))


@dataclass(frozen=True, slots=True, eq=False)
class PackedRows(Sequence[Row]):
    """Rows that are seldom looked at; each look makes them anew."""

    size: int
    data: bytes
    read: Callable[[bytes], Iterable[Row]]  # of a module, so that rows can go to another process

    @classmethod
    def of(cls, rows: Sequence[object], read: Callable[[bytes], Iterable[Row]]) -> "PackedRows[Row]":
        """`read` makes the rows of their MessagePack."""
        return cls(len(rows), squeezed(msgspec.msgpack.encode(rows)), read)

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Row]:
        return iter(self.read(unsqueezed(self.data)))

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        return tuple(self)[index]


def squeezed(data: bytes) -> bytes:
    # The library keeps as much room as it might have needed: a copy has only what it takes.
    return bytes(memoryview(_compressor().compress(data)))


def unsqueezed(data: bytes) -> bytes:
    return _decompressor().decompress(data)


@cache
def _compressor() -> zstandard.ZstdCompressor:
    return zstandard.ZstdCompressor(level=_LEVEL)


@cache
def _decompressor() -> zstandard.ZstdDecompressor:
    return zstandard.ZstdDecompressor()


NO_TIME = PackedIntervals.of(Intervals.empty())
