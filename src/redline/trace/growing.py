"""What grows while a file is read: numbers for names and lanes, and columns that take rows without being copied."""

from typing import Any, TypeVar

import numpy as np

from redline.timeline.table import Column, encodable
from redline.timeline.timeline import NONE

LaneKey = tuple[int | str, int | str, bool]  # process, thread, whether a stream of a device
_FIRST_ROWS = 1024
_GROWTH = 8  # grow by an eighth: what is grown and not used yet is memory too
Key = TypeVar("Key")


class Numbering(dict[Key, int]):
    """Numbers things in the order in which they are first asked for. Lookups run in C: this is the hottest loop."""

    def __missing__(self, key: Key) -> int:
        self[key] = number = len(self)
        return number


class RawNumbering(dict[bytes, int]):
    """Numbers of JSON values among all texts, by their bytes; nothing at all is -1."""

    def __init__(self, texts: Numbering[str]) -> None:
        super().__init__({b"": NONE})
        self._texts = texts

    def __missing__(self, raw: bytes) -> int:
        self[raw] = number = self._texts[raw.decode("utf-8", "replace")]
        return number


class LaneNumbering(dict[tuple[int | str, int | str], int]):
    """Numbers of threads, or of streams, in one list of lanes."""

    def __init__(self, lanes: list[LaneKey], on_device: bool) -> None:
        super().__init__()
        self._all, self._on_device = lanes, on_device

    def __missing__(self, lane: tuple[int | str, int | str]) -> int:
        self[lane] = number = len(self._all)
        process, thread = (encodable(one) if isinstance(one, str) else one for one in lane)
        self._all.append((process, thread, self._on_device))
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
