"""What grows while a file is read: numbers for names and lanes, and columns that take rows without being copied."""

from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
from msgspec import Raw

from redline.timeline.table import Column
from redline.timeline.timeline import NONE

LaneKey = tuple[int | str, int | str, bool]  # process, thread, whether a stream of a device
_FIRST_ROWS = 1024
_GROWTH = 8  # grow by an eighth: what is grown and not used yet is memory too
VALUE_END, ROW_END = b"\1", b"\0"
Key = TypeVar("Key")


class Numbering(dict[Key, int]):
    """Numbers things in the order in which they are first asked for. Lookups run in C: this is the hottest loop."""

    def __missing__(self, key: Key) -> int:
        self[key] = number = len(self)
        return number


class GroupNumbering(dict[str, Numbering[str]]):
    """Numbers of phases with categories: phase, then category. No pair is made to look one up."""

    def __init__(self) -> None:
        super().__init__()
        self.keys_in_order: list[tuple[str, str]] = []

    def __missing__(self, phase: str) -> "_Categories":
        self[phase] = categories = _Categories(self.keys_in_order, phase)
        return categories


class _Categories(Numbering[str]):
    def __init__(self, keys: list[tuple[str, str]], phase: str) -> None:
        super().__init__()
        self._keys, self._phase = keys, phase

    def __missing__(self, category: str) -> int:
        self[category] = number = len(self._keys)
        self._keys.append((self._phase, category))
        return number


class RawNumbering(dict[bytes, int]):
    """Numbers of JSON values among all texts, by their bytes; nothing at all is -1."""

    def __init__(self, texts: Numbering[str]) -> None:
        super().__init__({b"": NONE})
        self._texts = texts

    def __missing__(self, raw: bytes) -> int:
        self[raw] = number = self._texts[raw.decode("utf-8", "replace")]
        return number


class ValueNumbering(dict[bytes, int]):
    """Texts of JSON values that stand together in an event, as they were written; each distinct set is looked at once.

    A set is one text, with bytes between the values that no JSON holds.
    """

    def __init__(self, texts: RawNumbering, width: int) -> None:
        super().__init__()
        self._texts = texts
        self._numbers = np.empty((0, width), np.int32)
        self._new: list[bytes] = []

    def __missing__(self, values: bytes) -> int:
        self[values] = number = len(self)
        self._new.append(values)
        return number

    def columns(self, values: Iterable[Raw | bytes], count: int) -> Column:
        """For each value a row of text ids, -1 where there is none. Given are the values with what goes between."""
        rows = b"".join(values).split(ROW_END, count)
        which = np.fromiter(map(self.__getitem__, rows[:count]), np.int32, count)
        if self._new:
            width = self._numbers.shape[1]
            fields = zip(*(values.split(VALUE_END, width - 1) for values in self._new), strict=True)
            numbers = [list(map(self._texts.__getitem__, field)) for field in fields]
            self._numbers = np.concatenate([self._numbers, np.array(numbers, np.int32).T])
            self._new = []
        return self._numbers[which].T


class LaneNumbering(dict[int | str, "_Threads"]):
    """Numbers of threads, or of streams, in one list of lanes: process, then thread."""

    def __init__(self, lanes: list[LaneKey], on_device: bool) -> None:
        super().__init__()
        self._all, self._on_device = lanes, on_device

    def __missing__(self, process: int | str) -> "_Threads":
        self[process] = threads = _Threads(self._all, process, self._on_device)
        return threads


class _Threads(dict[int | str, int]):
    def __init__(self, lanes: list[LaneKey], process: int | str, on_device: bool) -> None:
        super().__init__()
        self._all, self._process, self._on_device = lanes, process, on_device

    def __missing__(self, thread: int | str) -> int:
        self[thread] = number = len(self._all)
        self._all.append((self._process, thread, self._on_device))
        return number


class Growing:
    """A column that grows in place: thousands of small arrays, joined in the end, would take twice the memory."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._held = np.empty(_FIRST_ROWS, dtype)
        self._count = 0

    def append(self, values: Column) -> None:
        if values.dtype.itemsize > self._held.dtype.itemsize:
            self._held = self._held.astype(values.dtype)
        count = self._count + len(values)
        if count > len(self._held):
            self._held.resize(count + count // _GROWTH, refcheck=False)
        self._held[self._count : count] = values
        self._count = count

    def finish(self) -> Column:
        self._held.resize(self._count, refcheck=False)
        return self._held
