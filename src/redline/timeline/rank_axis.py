"""Times of several ranks on one line, each in a stretch of its own: one pass of set algebra does all of them.

An operation on a few hundred intervals costs what calling NumPy costs. Of a job of 100,000 ranks there are millions.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.values import dataclass

AT_ONCE = 256  # ranks: enough that calls no longer count, and few enough that memory does not


@dataclass(frozen=True, kw_only=True)
class RankAxis:
    """Where the window of each rank lies on the line."""

    shift_ns: I64  # what is added to the times of each rank
    border_ns: I64  # where the stretch of each rank begins, and that of the last one ends

    @classmethod
    def of(cls, windows_ns: Sequence[tuple[int, int]]) -> "RankAxis":
        """256 windows of eleven days fit."""
        first_ns, last_ns = np.array(windows_ns, np.int64).reshape(-1, 2).T
        border_ns = np.concatenate((np.zeros(1, np.int64), np.cumsum(last_ns - first_ns + 1)))
        return cls(shift_ns=border_ns[:-1] - first_ns, border_ns=border_ns)

    def __len__(self) -> int:
        return len(self.shift_ns)

    def joined(self, times: Sequence[Intervals]) -> Intervals:
        """Those of all ranks, of each in its stretch: what is outside of its window is left out."""
        start_ns = self.moments([time.start for time in times])
        end_ns = self.moments([time.end for time in times])
        filled = start_ns < end_ns
        return Intervals(start_ns, end_ns) if filled.all() else Intervals(start_ns[filled], end_ns[filled])

    def moments(self, columns: Sequence[I64]) -> I64:
        """Times of all ranks in one column; those outside of a window at its edge."""
        rank = np.arange(len(self)).repeat([len(column) for column in columns])
        moments_ns: I64 = np.concatenate(columns) + self.shift_ns[rank]
        return moments_ns.clip(self.border_ns[rank], self.border_ns[rank + 1] - 1)

    def lengths_ns(self, time: Intervals) -> I64:
        """For each rank how much is in its stretch."""
        return time.overlap_with(self.border_ns[:-1], self.border_ns[1:])

    def split(self, time: Intervals) -> list[Intervals]:
        """For each rank what is in its stretch, on its own clock again."""
        edges = time.start.searchsorted(self.border_ns)
        shift_ns = self.shift_ns.repeat(np.diff(edges))
        start_ns, end_ns = time.start - shift_ns, time.end - shift_ns
        return [Intervals(start_ns[first:end], end_ns[first:end]) for first, end in pairwise(edges.tolist())]


def blocks_of(count: int) -> Iterator[slice]:
    """Ranks that are done together, in order."""
    return (slice(begin, min(begin + AT_ONCE, count)) for begin in range(0, count, AT_ONCE))
