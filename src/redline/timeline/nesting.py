"""Which span encloses which, on every lane at once, without a loop over spans."""

import numpy as np

from redline.timeline.table import I32, I64, Column

CROSSING_FLOOR_NS = 1_000  # entering a recorded function takes part of a microsecond that lies half inside it


def parents_of(
    start_ns: I64, end_ns: I64, lane: Column, crossing_floor_ns: int = CROSSING_FLOOR_NS
) -> tuple[I32, Column]:
    """Row of the innermost span around each span of its lane (-1 for none), and which spans cross another.

    Rows must be ordered by start and, where starts agree, longest first. Then the parent of a row is the nearest row
    before it, on its lane, that ends no earlier. All rows look at once: each holds a candidate and, while that one
    ends too early, jumps to the candidate's own candidate. Nothing between them can be the parent, as everything there
    ends before the rejected candidate does. The jumps double in length, so a few rounds suffice.

    A span that begins inside another and outlives it belongs to the next span further out that holds it whole.

        lane 0:  [a      [b ]  [c [d]]  ]   ->   parents of a b c d: -1 a a c
    """
    count = len(start_ns)
    order = np.argsort(lane, kind="stable")
    starts, ends, lanes = start_ns[order], end_ns[order], lane[order]
    candidate = np.arange(-1, count - 1, dtype=np.int32)
    candidate[np.flatnonzero(np.diff(lanes, prepend=-1))] = -1
    crossing = np.zeros(count, bool)
    active = np.flatnonzero(candidate >= 0)
    while active.size:
        tried = candidate[active]
        ends_too_early = (ends[tried] < ends[active]) | (ends[tried] <= starts[active])
        active, tried = active[ends_too_early], tried[ends_too_early]
        crossing[order[active]] |= ends[tried] - starts[active] > crossing_floor_ns
        candidate[active] = candidate[tried]
        active = active[candidate[active] >= 0]
    parent = np.full(count, -1, np.int32)
    found = candidate >= 0
    parent[order[found]] = order[candidate[found]]
    return parent, crossing


def innermost_at(points_ns: I64, point_lane: Column, start_ns: I64, end_ns: I64, lane: Column) -> I64:
    """Index of the innermost of the given spans that covers each point of its lane, -1 for none.

    Spans may come in any order; a point at the very end of a span is outside it.
    """
    spans = len(start_ns)
    starts = np.concatenate([start_ns, points_ns])
    ends = np.concatenate([end_ns, points_ns])
    is_point = np.arange(len(starts)) >= spans
    # A point at the very start of a span is inside it, so points come after spans of equal start.
    order = np.lexsort((-ends, is_point, starts))
    parent, _ = parents_of(starts[order], ends[order], np.concatenate([lane, point_lane])[order])
    around = np.full(len(starts), -1, np.int64)
    has = parent >= 0
    around[order[has]] = order[parent[has]]
    inner = around[spans:]
    # A point's parent may be another point that starts where it does; climb until it is a span.
    while True:
        climb = inner >= spans
        if not climb.any():
            return inner
        inner[climb] = around[inner[climb]]
