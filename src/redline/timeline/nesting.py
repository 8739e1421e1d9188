"""Which span encloses which, without a loop over spans, in n log n steps however deep they nest."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from redline.timeline.intervals import distinct_times
from redline.timeline.table import I32, I64, Column, grouped

CROSSING_FLOOR_NS = 1_000  # entering a recorded function takes part of a microsecond that lies half inside it
_NONE = -1
_NEVER, _EVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_SMALL_LANE = 1000  # rows
_FARTHEST_NS = 1 << 61
_PER_ROUND = 256  # what a round costs beside its rows, in rows


def parents_of(start_ns: I64, end_ns: I64, crossing_floor_ns: int = CROSSING_FLOOR_NS) -> tuple[I32, Column]:
    """Row of the innermost span of a lane around each span of it (-1 for none), and which spans cross another.

    Rows must be ordered by start and, where starts agree, longest first. Then the parent of a row is the nearest row
    before it that ends no earlier. All rows look for it at once in a tree of latest ends: up, until the whole subtree
    on the left holds a row that ends late enough, then down to the last such row in it. What they pass on the way lies
    between the two and ends too early: a span crosses another if one of those still runs when it begins.

    A span that begins inside another and outlives it belongs to the next span further out that holds it whole.

        [a      [b ]  [c [d]]  ]   ->   parents of a b c d: -1 a a c
    """
    looking = _Looking(start_ns, end_ns, crossing_floor_ns)
    levels = list(_latest_ends(end_ns))
    rows = node = np.arange(len(start_ns), dtype=np.int32)
    below: list[tuple[I32, I32]] = []  # rows that look no higher than this level, and the subtree to look in
    for latest_ns in levels:
        has_left = node & 1 == 1
        is_late_enough = looking.late_enough(rows[has_left], latest_ns[node[has_left] - 1])
        below.append((rows[has_left][is_late_enough], node[has_left][is_late_enough] - 1))
        higher = ~has_left
        higher[has_left] = ~is_late_enough
        rows, node = rows[higher], node[higher] >> 1
    rows, node = rows[:0], node[:0]
    for latest_ns, (joining, subtree) in zip(reversed(levels[:-1]), reversed(below[1:]), strict=True):
        rows, node = np.concatenate([rows, joining]), 2 * np.concatenate([node, subtree]) + 1
        node -= ~looking.late_enough(rows, latest_ns[node])
    parent = np.full(len(start_ns), _NONE, np.int32)
    for some, theirs in ((rows, node), *below[:1]):
        parent[some] = theirs
    return parent, looking.crossing


class _Looking:
    """What each row is looking for, and whether it passed a row that it crosses."""

    def __init__(self, start_ns: I64, end_ns: I64, crossing_floor_ns: int) -> None:
        self._least_ns = np.maximum(end_ns, start_ns + 1)
        self._crossed_ns = start_ns + crossing_floor_ns
        self.crossing = np.zeros(len(start_ns), bool)

    def late_enough(self, rows: I32, latest_ns: I64) -> npt.NDArray[np.bool_]:
        """Which of the rows have before them, where something ends this late, what they look for."""
        is_late_enough: npt.NDArray[np.bool_] = latest_ns >= self._least_ns[rows]
        self.crossing[rows] |= ~is_late_enough & (latest_ns > self._crossed_ns[rows])
        return is_late_enough


def _latest_ends(end_ns: I64) -> Iterator[I64]:
    """The ends, then the later of each two of them, and so on up to one; each level of even length."""
    while len(end_ns):
        if len(end_ns) % 2:
            end_ns = np.append(end_ns, _NEVER)
        yield end_ns
        if len(end_ns) == 2:
            return
        end_ns = np.maximum(end_ns[::2], end_ns[1::2])


def lumps_of(lane: Column, start_ns: I64, end_ns: I64) -> Iterator[tuple[I64, I64]]:
    """Rows that can be looked at as those of one lane, and how far to shift the times of each for that.

    Large lanes go one at a time, because of what that takes of memory; small ones together, as there may be many: each
    lane's times are shifted behind those of the lane before it.
    """
    many: list[I64] = []
    for _, rows in grouped(lane):
        if len(rows) < _SMALL_LANE:
            many.append(rows)
        else:
            yield rows, np.zeros(len(rows), np.int64)
    if not many:
        return
    apart_ns = int(end_ns.max()) - int(start_ns.min()) + 1
    together = max(1, _FARTHEST_NS // apart_ns)
    for first in range(0, len(many), together):
        lanes = many[first : first + together]
        yield np.concatenate(lanes), np.repeat(np.arange(len(lanes)) * apart_ns, list(map(len, lanes)))


def nearest_of(chosen: npt.NDArray[np.bool_], parent: Column, rows: Column) -> I64:
    """Of each row and the spans around it the innermost that is chosen, -1 for none; rows may be -1.

    All climb at once, from parent to parent. Each time that has cost as much as looking at every span once, the
    jumps are made twice as long, so depth costs its logarithm.
    """
    if not chosen.any():
        return np.full(len(rows), _NONE, np.int64)
    jump = np.append(np.where(chosen, np.arange(len(parent), dtype=np.int32), parent), _NONE)
    at = rows.astype(np.int64)
    climbing = np.arange(len(at))
    spent = 0
    while climbing.size:
        here = at[climbing]
        at[climbing] = above = jump[here]
        climbing = climbing[above != here]
        spent += climbing.size + _PER_ROUND
        if spent > len(parent):
            jump, spent = jump[jump], 0
    return at


def innermost_at(points_ns: I64, start_ns: I64, end_ns: I64) -> I64:
    """Index of the innermost of the spans that covers each point, -1 for none; a span's end is outside it.

    Spans may come in any order.
    """
    from_ns, to_ns, inner = innermost_segments(start_ns, end_ns)
    if not len(inner):
        return np.full(len(points_ns), _NONE, np.int64)
    at = np.searchsorted(from_ns, points_ns, side="right") - 1
    return np.where((at >= 0) & (points_ns < to_ns[at]), inner[at], _NONE)


def innermost_segments(start_ns: I64, end_ns: I64) -> tuple[I64, I64, I64]:
    """The covered time cut wherever a span begins or ends: start and end of each piece, and its innermost span.

    Spans may come in any order.

        [a      [b ]     ]   ->   a b a
    """
    order = np.lexsort((-end_ns, start_ns))
    start_ns, end_ns = start_ns[order], end_ns[order]
    parent, _ = parents_of(start_ns, end_ns)
    from_ns, to_ns, inner = segments_under(start_ns, end_ns, parent)
    return from_ns, to_ns, order[inner]


def segments_under(start_ns: I64, end_ns: I64, parent: Column) -> tuple[I64, I64, I64]:
    """The innermost segments of spans whose parents are known, in the order that `parents_of` asks for.

    At any point the last span to begin is the innermost, or one around it if it has ended: what began between the two
    ended before it did.
    """
    points = distinct_times(start_ns, np.sort(end_ns, kind="stable"))
    begun = np.searchsorted(start_ns, points[:-1], side="right") - 1
    inner = _still_open(begun, points[:-1], end_ns, parent)
    covered = inner != _NONE
    return points[:-1][covered], points[1:][covered], inner[covered]


def _still_open(rows: I64, points_ns: I64, end_ns: I64, parent: Column) -> I64:
    """Of each row and the spans around it the innermost that ends after a point, -1 for none."""
    ends, up = np.append(end_ns, _EVER), np.append(parent, _NONE)  # what stands last is met by -1
    at = rows.copy()
    climbing = np.flatnonzero(ends[at] <= points_ns)
    spent = 0
    while climbing.size and spent <= 4 * len(ends):
        above = up[at[climbing]]
        at[climbing] = above
        spent += climbing.size + _PER_ROUND
        climbing = climbing[ends[above] <= points_ns[climbing]]
    at[climbing] = _climbed_far(at[climbing], points_ns[climbing], ends, up)
    return at


def _climbed_far(at: I64, points_ns: I64, ends: I64, up: Column) -> I64:
    """The same where spans nest deep. Ends grow outwards, so halving jumps find the last one that has ended."""
    if not len(at):
        return at
    jumps = [up]
    while (jumps[-1] != _NONE).any():
        jumps.append(jumps[-1][jumps[-1]])
    for jump in reversed(jumps):
        further = jump[at]
        at = np.where(ends[further] <= points_ns, further, at)
    return up[at]
