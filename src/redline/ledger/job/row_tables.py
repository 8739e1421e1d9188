"""Rows of all ranks added up where they say the same. Held as columns: ranks may have little in common."""

from array import array
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from sys import intern
from typing import Any, ClassVar, Generic, TypeVar, overload

import numpy as np

from redline.ledger.rank.digest import Digest
from redline.ledger.rank.host_activity import HostActivity, added
from redline.ledger.rank.kernel_table import KernelRow, merged

Row = TypeVar("Row")
_AT_ONCE = 1024  # rows that are made together
_SHORT = 32


@dataclass(frozen=True, kw_only=True, eq=False)
class RowTable(Sequence[Row], Generic[Row]):
    """Rows in order; each look makes them anew."""

    kind: ClassVar[type]
    columns: tuple[Any, ...]  # of texts or numbers, one for each field of a row

    def __len__(self) -> int:
        return len(self.columns[0])

    def __iter__(self) -> Iterator[Row]:
        return (row for begin in range(0, len(self), _AT_ONCE) for row in self[begin : begin + _AT_ONCE])

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        if not isinstance(index, slice):
            place = range(len(self))[index]
            return self[place : place + 1][0]
        names = [field.name for field in fields(self.kind)]
        parts = (column[index] for column in self.columns)
        plain = (part.tolist() if isinstance(part, np.ndarray) else part for part in parts)
        return tuple(self.kind(**dict(zip(names, row, strict=True))) for row in zip(*plain, strict=True))


class KernelTable(RowTable[KernelRow]):
    """The table of kernels of a job."""

    kind = KernelRow


class HostActivityTable(RowTable[HostActivity]):
    """What the host did, of a job."""

    kind = HostActivity


def kernels_of(ranks: Sequence[Digest]) -> Sequence[KernelRow]:
    """By operator and shape, the longest first."""
    kinds = dict.fromkeys(("calls", "kernels", "time_ns", "flops", "bytes", "above"), "q")
    try:
        sums = _Sums(KernelRow, kinds | {"math_ns": "d", "memory_ns": "d"}, attrgetter("key"))
        for rank in ranks:
            sums.add(rank.kernels)
        return KernelTable(columns=sums.in_order(lambda key: key))
    except OverflowError:  # sums beyond 63 bits: of few rows, as all ranks have them in common
        return merged(row for rank in ranks for row in rank.kernels)


def host_activities_of(ranks: Sequence[Digest]) -> Sequence[HostActivity]:
    """By what it was, the longest first."""
    key = attrgetter("account", "kind", "name", "region", "site")
    try:
        sums = _Sums(HostActivity, {"time_ns": "q", "times": "q"}, key)
        for rank in ranks:
            sums.add(rank.doing)
        return HostActivityTable(columns=sums.in_order(lambda row: row[2:]))
    except OverflowError:
        return added(row for rank in ranks for row in rank.doing)


class _Sums(Generic[Row]):
    """Rows with the same key as one: the first, with the amounts of all."""

    def __init__(self, kind: type, summed: dict[str, str], key_of: Callable[[Row], Hashable]) -> None:
        self._key_of = key_of
        self._places: dict[Hashable, int] = {}
        names = [field.name for field in fields(kind)]
        self._columns: dict[str, Any] = {name: array(summed[name]) if name in summed else [] for name in names}
        self._amounts_of = attrgetter(*summed)
        self._sums = [self._columns[name] for name in summed]
        self._texts_of = attrgetter(*(name for name in names if name not in summed))
        self._texts = [self._columns[name] for name in names if name not in summed]

    def add(self, rows: Sequence[Row]) -> None:
        for row in rows:
            key = self._key_of(row)
            place = self._places.setdefault(key, len(self._places))
            if place < len(self._sums[0]):
                for column, amount in zip(self._sums, self._amounts_of(row), strict=True):
                    column[place] += amount
                continue
            for column, amount in zip(self._sums, self._amounts_of(row), strict=True):
                column.append(amount)
            for column, text in zip(self._texts, self._texts_of(row), strict=True):
                # Names of operators and types are few, and short; what is long is mostly a rank's own.
                column.append(intern(text) if type(text) is str and len(text) < _SHORT else text)

    def in_order(self, then_by: Callable[[Any], Any]) -> tuple[Any, ...]:
        """The columns, the longest time first, of equal ones by their key."""
        time_ns = np.array(self._columns["time_ns"], np.int64)
        order = np.argsort(-time_ns, kind="stable")
        self._sort_equal(order, time_ns, then_by)
        places = order.tolist()
        return tuple(
            np.array(column)[order] if isinstance(column, array) else tuple(map(column.__getitem__, places))
            for column in self._columns.values()
        )

    def _sort_equal(self, order: Any, time_ns: Any, then_by: Callable[[Any], Any]) -> None:
        keys = list(self._places)
        equal = time_ns[order[1:]] == time_ns[order[:-1]]
        edges = np.flatnonzero(np.diff(equal, prepend=False, append=False))
        for begin, end in edges.reshape(-1, 2).tolist():
            order[begin : end + 1] = sorted(order[begin : end + 1].tolist(), key=lambda place: then_by(keys[place]))
