"""The times of all points under changed delays, for many scenarios at once.

Points are put into chains: runs in which each comes after the one before it. Along a chain, times are a running
maximum of sums, which NumPy finds for all of its points at once. A point that waits for one of another chain begins a
new level; all chains of a level are done together.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from redline.replay.edges import EdgeKind, Edges
from redline.timeline.table import I64, Column
from redline.timeline.timeline import NONE
from redline.values import dataclass

GONE_NS = -(1 << 52)  # the delay of an edge that no longer holds anything up
_MOST_AT_ONCE = 64
_MOST_CELLS = 10_000_000  # delays, of all edges and of the scenarios that are replayed at once
_LIMIT = 1 << 61
_ALONG = (EdgeKind.HOST, EdgeKind.RETURN, EdgeKind.STREAM, EdgeKind.DEVICE, EdgeKind.TRANSFER)
"""Edges that chains are made of, the likeliest first. None of them is ever gone."""


class WaitForEachOtherError(ValueError):
    """What the ranks recorded cannot have happened: each of some points waits for another."""


@dataclass(frozen=True, kw_only=True)
class ReplayPlan:
    """The order in which points are computed. Made once for a graph."""

    points: I64  # by level, and in each by chain
    firsts: tuple[int, ...]  # where each level begins in `points`, and the end
    chains: tuple[int, ...]  # of each level
    chain: I64  # of each of `points`, counted in its level
    begins: Column  # whether each of `points` is the first of its chain in its level
    along: I64  # the edge to each of `points` from the one before it; NONE where `begins`
    cross: I64  # edges that lead from level to level, by level and head
    cross_firsts: tuple[int, ...]  # where each level begins in `cross`, and the end
    tail_place: I64  # of each of `cross`: the place of its tail in `points`
    heads: I64  # where these edges lead to, each once: places in its level
    heads_firsts: tuple[int, ...]  # where each level begins in `heads`, and the end
    first_to_head: I64  # of each of `heads` the first edge that leads there: its place among those of the level


def plan_of(edges: Edges, points: int) -> ReplayPlan:
    """Order the points of a graph so that NumPy computes whole chains of them at once.

    A thread calls 0, 1, 4; call 0 launches a kernel that runs from 2 to 3, and call 4 waits for its end:

    edges    0: 0 > 1 host   1: 0 > 2 launch   2: 2 > 3 device   3: 1 > 4 host   4: 3 > 4 wait
    chains   [0 1 4] [2 3]
    levels   [0 1] | [2 3] | [4]      2 waits for another chain, and 4 for a later level: each begins one
    points   0  1 | 2  3 | 4
    along    -  0 | -  2 | -          the edges inside of chains: running sums
    cross         | 1    | 3 4        edges from earlier levels: the latest of each head's is where its chain begins
    """
    chain_edge = _chain_edges(edges, points)
    level = _levels(edges, points, chain_edge)
    before = np.where(chain_edge != NONE, np.append(edges.tail, NONE)[chain_edge], NONE)
    begins_piece = (before == NONE) | (level[before] != level)
    place_in_chain, chain = _chains(before)
    order = np.lexsort((place_in_chain, chain, level))
    place = np.empty(points, np.int64)
    place[order] = np.arange(points)
    along = np.where(begins_piece, NONE, chain_edge)
    is_along = np.zeros(len(edges), bool)
    is_along[along[along != NONE]] = True
    cross = np.flatnonzero(~is_along)
    cross = cross[np.argsort(place[edges.head[cross]], kind="stable")]
    levels = np.arange(int(level.max(initial=0)) + 2)
    firsts = np.searchsorted(level[order], levels)
    cross_firsts = np.searchsorted(level[edges.head[cross]], levels)
    head_place = place[edges.head[cross]]
    begins_head = np.flatnonzero(np.append(True, head_place[1:] != head_place[:-1])[: len(cross)])
    head_level = level[edges.head[cross[begins_head]]]
    begins = begins_piece[order]
    begun = np.append(0, np.cumsum(begins))[firsts]
    return ReplayPlan(
        points=order,
        firsts=tuple(firsts.tolist()),
        chains=tuple(np.diff(begun).tolist()),
        chain=np.cumsum(begins) - 1 - begun[level[order]],
        begins=begins,
        along=along[order],
        cross=cross,
        cross_firsts=tuple(cross_firsts.tolist()),
        tail_place=place[edges.tail[cross]],
        heads=head_place[begins_head] - firsts[head_level],
        heads_firsts=tuple(np.searchsorted(head_level, levels).tolist()),
        first_to_head=begins_head - cross_firsts[head_level],
    )


def _chain_edges(edges: Edges, points: int) -> I64:
    """For each point the edge that puts it behind another in a chain, or NONE; each point has at most one behind it."""
    preference = np.full(len(EdgeKind) + 1, len(_ALONG), np.int64)
    preference[list(_ALONG)] = np.arange(len(_ALONG))
    candidates = np.flatnonzero(np.isin(edges.kind, _ALONG) & (edges.tail != edges.head))
    candidates = candidates[np.argsort(preference[edges.kind[candidates]], kind="stable")]
    _, first = np.unique(edges.head[candidates], return_index=True)
    candidates = candidates[np.sort(first)]
    _, first = np.unique(edges.tail[candidates], return_index=True)
    chosen = candidates[first]
    chain_edge = np.full(points, NONE)
    chain_edge[edges.head[chosen]] = chosen
    return chain_edge


def _chains(before: I64) -> tuple[I64, I64]:
    """The place of each point in its chain, and the point that begins that chain: all climb at once, twice as far each
    time."""
    points = np.arange(len(before))
    up = np.where(before == NONE, points, before)
    steps = (before != NONE).astype(np.int64)
    while True:
        further = up[up]
        if (further == up).all():
            return steps, up
        steps += steps[up]
        up = further


def _levels(edges: Edges, points: int, chain_edge: I64) -> I64:
    """How often the longest way to each point changes its chain."""
    order = np.argsort(edges.tail, kind="stable")
    first = np.searchsorted(edges.tail[order], np.arange(points + 1)).tolist()
    to = edges.head[order].tolist()
    rise = np.ones(len(edges), np.int64)
    rise[chain_edge[chain_edge != NONE]] = 0
    rises = rise[order].tolist()
    waits_for = np.bincount(edges.head, minlength=points)
    ready = np.flatnonzero(waits_for == 0).tolist()
    left = waits_for.tolist()
    level = [0] * points
    done = 0
    while ready:
        point = ready.pop()
        done += 1
        here = level[point]
        for number in range(first[point], first[point + 1]):
            head = to[number]
            level[head] = max(level[head], here + rises[number])
            left[head] -= 1
            if not left[head]:
                ready.append(head)
    if done != points:
        raise WaitForEachOtherError(f"{points - done} points wait for each other")
    return np.array(level, np.int64)


def scenarios_at_once(edges: Edges) -> int:
    """How many are replayed side by side: what they take is bounded, however large the graph is."""
    return max(1, min(_MOST_AT_ONCE, _MOST_CELLS // max(len(edges), 1)))


def replayed(edges: Edges, plan: ReplayPlan, delays_ns: I64, begin_ns: int) -> I64:
    """[point, scenario]: when each point comes with these delays, [edge, scenario]. What has nothing left to wait for
    comes at the beginning."""
    times_ns = np.full((len(plan.points), delays_ns.shape[1]), begin_ns, np.int64)
    if len(edges):
        times_ns[plan.points] = _in_plan_order(plan, delays_ns, begin_ns)
    return times_ns


def _in_plan_order(plan: ReplayPlan, delays_ns: I64, begin_ns: int) -> I64:
    """Level by level. There may be thousands, with a few points each, so that none may take more than a handful of
    calls."""
    sums_ns, farthest_ns = _sums_along(plan, delays_ns)
    farthest_ns += abs(begin_ns) + 1
    cross_ns = delays_ns[plan.cross]
    times_ns = np.empty(sums_ns.shape, np.int64)
    times_ns[:] = np.where(plan.begins, begin_ns, GONE_NS)[:, None]
    levels = zip(pairwise(plan.firsts), pairwise(plan.cross_firsts), pairwise(plan.heads_firsts), strict=True)
    for chains, ((low, high), (first, last), (head, after)) in zip(plan.chains, levels, strict=True):
        level_ns = times_ns[low:high]
        if last > first:
            ready_ns = times_ns.take(plan.tail_place[first:last], axis=0)
            ready_ns += cross_ns[first:last]
            heads = plan.heads[head:after]
            if last - first > after - head:
                ready_ns = np.maximum.reduceat(ready_ns, plan.first_to_head[head:after])
            level_ns[heads] = np.maximum(level_ns.take(heads, axis=0), ready_ns)
        if chains == 1:
            _go_along(level_ns, sums_ns[low:high])
        elif chains < high - low:
            farthest_ns = max(farthest_ns, int(level_ns.max()))
            chain = plan.chain[low:high]
            for here in _pieces(chain, chains, farthest_ns):
                apart_ns = (chain[here] - chain[here.start]) * (4 * farthest_ns)
                _go_along(level_ns[here], sums_ns[low:high][here] - apart_ns[:, None])
    return times_ns


def _sums_along(plan: ReplayPlan, delays_ns: I64) -> tuple[I64, int]:
    """Sums of the delays along chains, of all chains one behind the other, and what is no less than any of them."""
    along_ns = delays_ns[plan.along]
    along_ns[plan.begins] = 0
    most_ns = int(np.abs(along_ns).sum(axis=0).max(initial=0))
    return np.cumsum(along_ns, axis=0, out=along_ns), most_ns


def _pieces(chain: I64, chains: int, farthest_ns: int) -> Iterator[slice]:
    """Whole chains, as many at once as can be kept apart in 64 bits."""
    most = max(1, _LIMIT // (8 * farthest_ns))
    borders = np.searchsorted(chain, np.arange(0, chains, most)).tolist()
    yield from map(slice, borders, [*borders[1:], len(chain)])


def _go_along(times_ns: I64, sums_ns: I64) -> None:
    """From when points could come for what is beside their chains to when they come. Chains that stand one behind the
    other are each far above the one before it."""
    times_ns -= sums_ns
    np.maximum.accumulate(times_ns, axis=0, out=times_ns)
    times_ns += sums_ns
