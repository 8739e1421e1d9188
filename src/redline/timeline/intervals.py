"""Set algebra on time: unions, intersections and gaps of half-open intervals, exact in int64.

Times are int64 arrays of nanoseconds. They and their differences must fit in 63 bits, as every date before 2262 does.
"""

import numpy as np
from numpy.typing import NDArray

from redline.values import dataclass

Times = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, slots=True)
class Intervals:
    """A set of instants, held as the fewest half-open intervals `[start, end)`.

    The intervals are sorted, none is empty, and no two overlap or touch, so equal sets have equal arrays.
    """

    start: Times
    end: Times

    @classmethod
    def empty(cls) -> "Intervals":
        return cls(np.empty(0, np.int64), np.empty(0, np.int64))

    @classmethod
    def union_of(cls, starts: Times, ends: Times) -> "Intervals":
        """The instants covered by any `[starts[i], ends[i])`, given in any order; those of no length cover nothing.

        starts  0 5 3        start  0 3
        ends    2 6 6   ->   end    2 6
        """
        starts, ends = _checked(starts, ends)
        filled = ends > starts
        if not filled.all():
            starts, ends = starts[filled], ends[filled]
        if not len(starts):
            return cls.empty()
        if (starts[1:] < starts[:-1]).any():
            order = starts.argsort(kind="stable")
            starts, ends = starts[order], ends[order]
        reach = np.maximum.accumulate(ends)
        # A new interval begins where a start lies beyond everything before it.
        apart = np.ones(len(starts) + 1, np.bool_)
        np.greater(starts[1:], reach[:-1], out=apart[1:-1])
        return cls(starts[apart[:-1]], reach[apart[1:]])

    @property
    def length_ns(self) -> int:
        return int((self.end - self.start).sum())

    def __len__(self) -> int:
        return len(self.start)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Intervals):
            return NotImplemented
        return np.array_equal(self.start, other.start) and np.array_equal(self.end, other.end)

    def __or__(self, other: "Intervals") -> "Intervals":
        if not len(self) or not len(other):
            return self if len(self) else other
        return Intervals.union_of(np.concatenate((self.start, other.start)), np.concatenate((self.end, other.end)))

    def __and__(self, other: "Intervals") -> "Intervals":
        if not len(self) or not len(other):
            return Intervals.empty()
        other = other.clip(int(self.start[0]), int(self.end[-1]))  # of many, few may matter
        points = distinct_times(self.start, self.end, other.start, other.end)
        return _where(points, self._covers(points) & other._covers(points))

    def __sub__(self, other: "Intervals") -> "Intervals":
        if not len(self) or not len(other):
            return self
        other = other.clip(int(self.start[0]), int(self.end[-1]))
        points = distinct_times(self.start, self.end, other.start, other.end)
        return _where(points, self._covers(points) & ~other._covers(points))

    def contains(self, points: Times) -> Mask:
        """Whether each point is covered."""
        covered: Mask = self.start.searchsorted(points, side="right") > self.end.searchsorted(points, side="right")
        return covered

    def _covers(self, points: Times) -> Mask:
        """Whether each of these points, which are sorted and hold all borders, is covered."""
        changes = np.zeros(points.shape, np.bool_)
        changes[points.searchsorted(self.start)] = True
        changes[points.searchsorted(self.end)] = True
        covered: Mask = np.logical_xor.accumulate(changes)
        return covered

    def clip(self, lo: int, hi: int) -> "Intervals":
        """The part inside `[lo, hi)`."""
        _check_window(lo, hi)
        if lo == hi:
            return Intervals.empty()
        first, last = self.end.searchsorted(lo, side="right"), self.start.searchsorted(hi, side="left")
        return Intervals(np.maximum(self.start[first:last], lo), np.minimum(self.end[first:last], hi))

    def gaps(self, lo: int, hi: int) -> "Intervals":
        """The part of `[lo, hi)` that is not covered."""
        inside = self.clip(lo, hi)
        starts = np.concatenate((np.array([lo], np.int64), inside.end))
        ends = np.concatenate((inside.start, np.array([hi], np.int64)))
        filled = ends > starts
        return Intervals(starts[filled], ends[filled])

    def overlap_with(self, starts: Times, ends: Times) -> Times:
        """How many covered nanoseconds lie in each window `[starts[i], ends[i])`; windows may overlap."""
        starts, ends = _checked(starts, ends)
        before = self._covered_before(np.concatenate((ends, starts)))
        return before[: len(ends)] - before[len(ends) :]

    def _covered_before(self, points: Times) -> Times:
        if not len(self) or not len(points):
            return np.zeros(points.shape, np.int64)
        begun = self.start.searchsorted(points, side="right")
        lengths = np.append(0, np.cumsum(self.end - self.start))
        ends = np.append(points.min(), self.end)  # before the first interval, none goes on
        # The last interval begun counts only up to the point.
        covered: Times = lengths[begun] - np.maximum(ends[begun] - points, 0)
        return covered

    def meets(self, starts: Times, ends: Times) -> Mask:
        """Which windows share time with it: those with which it overlaps, for less than it costs to say how far."""
        starts, ends = _checked(starts, ends)
        begun, ended = self.start.searchsorted(ends, side="left"), self.end.searchsorted(starts, side="right")
        meeting: Mask = (begun > ended) & (ends > starts)
        return meeting

    def self_check(self) -> None:
        """Raise AssertionError where an invariant does not hold."""
        for name, times in (("start", self.start), ("end", self.end)):
            if times.dtype != np.int64 or times.ndim != 1:
                raise AssertionError(f"{name} is a {times.ndim}-d array of {times.dtype}, not a 1-d array of int64")
        if self.start.shape != self.end.shape:
            raise AssertionError(f"{len(self.start)} starts but {len(self.end)} ends")
        if np.any(self.start >= self.end):
            raise AssertionError(f"interval {np.argmax(self.start >= self.end)} is empty or ends before it starts")
        if np.any(self.start[1:] <= self.end[:-1]):
            at = np.argmax(self.start[1:] <= self.end[:-1])
            raise AssertionError(f"intervals {at} and {at + 1} overlap, touch or are out of order")


def distinct_times(*sorted_times: Times) -> Times:
    """The times of all arrays, sorted, each once."""
    # A stable sort merges arrays that are already sorted; np.unique would take ten times as long.
    times = np.concatenate(sorted_times)
    times.sort(kind="stable")
    first = np.ones(times.shape, np.bool_)
    np.not_equal(times[1:], times[:-1], out=first[1:])
    return times[first]


def _where(points: Times, covered: Mask) -> Intervals:
    """The intervals from each point to the next whose left end is covered; the last point begins none."""
    if not len(points):
        return Intervals.empty()
    edges = covered.copy()
    np.not_equal(covered[1:], covered[:-1], out=edges[1:])
    borders = points[edges]
    return Intervals(borders[::2], borders[1::2])


def _checked(starts: Times, ends: Times) -> tuple[Times, Times]:
    # "safe" refuses floats: a float64 of nanoseconds since 1970 is already wrong.
    starts, ends = (np.asarray(times).astype(np.int64, casting="safe", copy=False) for times in (starts, ends))
    if starts.shape != ends.shape or starts.ndim != 1:
        raise ValueError(f"starts and ends must be 1-d and of one length, not {starts.shape} and {ends.shape}")
    if (ends < starts).any():
        at = int(np.argmax(ends < starts))
        raise ValueError(f"interval {at} ends at {ends[at]}, before it starts at {starts[at]}")
    return starts, ends


def _check_window(lo: int, hi: int) -> None:
    if hi < lo:
        raise ValueError(f"the window ends at {hi}, before it starts at {lo}")
