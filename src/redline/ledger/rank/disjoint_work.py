"""Overlapping work made disjoint: each instant belongs to the piece of work that began first."""

from typing import Self

import numpy as np
import numpy.typing as npt

from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Owned:
    """Pieces of work in order of start, each with the part of its time that no earlier one covers."""

    row: I64  # in the timeline's spans
    start_ns: I64
    end_ns: I64  # equal to start_ns where earlier work covers all of it

    @classmethod
    def of(cls, row: I64, start_ns: I64, end_ns: I64) -> Self:
        """Pieces in any order.

        [a     ]              a: its whole time
           [b     ]      ->   b: from the end of a
             [c ]             c: nothing
        """
        order = np.argsort(start_ns, kind="stable")
        row, start_ns, end_ns = row[order], start_ns[order], end_ns[order]
        begin = start_ns.copy()
        begin[1:] = np.maximum(begin[1:], np.maximum.accumulate(end_ns)[:-1])
        return cls(row=row, start_ns=np.minimum(begin, end_ns), end_ns=end_ns)

    def __len__(self) -> int:
        return len(self.row)

    @property
    def dur_ns(self) -> I64:
        return self.end_ns - self.start_ns

    def where(self, chosen: npt.NDArray[np.bool_] | slice = slice(None)) -> Intervals:
        """The time that the chosen pieces own."""
        return Intervals.union_of(self.start_ns[chosen], self.end_ns[chosen])
