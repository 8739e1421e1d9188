"""Which span encloses which, without a loop over spans."""

import numpy as np

from redline.timeline.table import I32, I64, Column

CROSSING_FLOOR_NS = 1_000  # entering a recorded function takes part of a microsecond that lies half inside it


def parents_of(start_ns: I64, end_ns: I64, crossing_floor_ns: int = CROSSING_FLOOR_NS) -> tuple[I32, Column]:
    """Row of the innermost span of a lane around each span of it (-1 for none), and which spans cross another.

    Rows must be ordered by start and, where starts agree, longest first. Then the parent of a row is the nearest row
    before it that ends no earlier. All rows look at once: each holds a candidate and, while that one ends too early,
    jumps to the candidate's own candidate. Nothing between them can be the parent, as everything there ends before
    the rejected candidate does. The jumps double in length, so a few rounds suffice.

    A span that begins inside another and outlives it belongs to the next span further out that holds it whole.

        [a      [b ]  [c [d]]  ]   ->   parents of a b c d: -1 a a c
    """
    candidate = np.arange(-1, len(start_ns) - 1, dtype=np.int32)
    crossing = np.zeros(len(start_ns), bool)
    active = np.arange(1, len(start_ns), dtype=np.int32)
    while active.size:
        tried = candidate[active]
        tried_end = end_ns[tried]
        too_early = (tried_end < end_ns[active]) | (tried_end <= start_ns[active])
        active, tried = active[too_early], tried[too_early]
        crossing[active] |= tried_end[too_early] - start_ns[active] > crossing_floor_ns
        candidate[active] = candidate[tried]
        active = active[candidate[active] >= 0]
    return candidate, crossing


def innermost_at(points_ns: I64, start_ns: I64, end_ns: I64) -> I64:
    """Index of the innermost of the spans that covers each point, -1 for none; a span's end is outside it.

    Spans may come in any order.
    """
    spans = len(start_ns)
    starts = np.concatenate([start_ns, points_ns])
    ends = np.concatenate([end_ns, points_ns])
    is_point = np.arange(len(starts)) >= spans
    # A point at the very start of a span is inside it, so points come after spans of equal start.
    order = np.lexsort((-ends, is_point, starts))
    parent, _ = parents_of(starts[order], ends[order])
    around = np.full(len(starts), -1, np.int64)
    has = parent >= 0
    around[order[has]] = order[parent[has]]
    return around[spans:]


def innermost_segments(start_ns: I64, end_ns: I64) -> tuple[I64, I64, I64]:
    """The covered time cut wherever a span begins or ends: start and end of each piece, and its innermost span.

    Spans may come in any order.

        [a      [b ]     ]   ->   a b a
    """
    points = np.unique(np.concatenate([start_ns, end_ns]))
    inner = innermost_at(points[:-1], start_ns, end_ns)
    covered = inner >= 0
    return points[:-1][covered], points[1:][covered], inner[covered]
