"""The times of all points under changed delays, for many scenarios at once.

Points are put into chains: runs in which each comes after the one before it. Along a chain, times are a running
maximum of sums, which NumPy finds for all of its points at once. A point that waits for one of another chain begins a
new level; all chains of a level are done together.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from redline.replay.edges import EdgeKind, Edges
from redline.timeline.table import I64, Column
from redline.timeline.timeline import NONE

GONE_NS = -(1 << 52)  # the delay of an edge that no longer holds anything up
_MOST_CELLS = 1 << 23  # delays, of all edges and of the scenarios that are replayed at once
_LIMIT = 1 << 61
_ALONG = (EdgeKind.HOST, EdgeKind.RETURN, EdgeKind.STREAM, EdgeKind.DEVICE, EdgeKind.TRANSFER)
"""Edges that chains are made of, the likeliest first. None of them is ever gone."""


@dataclass(frozen=True, kw_only=True)
class ReplayPlan:
    """The order in which points are computed. Made once for a graph."""

    points: I64  # by level, and in each by chain
    firsts: tuple[int, ...]  # where each level begins in `points`, and the end
    begins: Column  # whether each of `points` is the first of its chain in its level
    along: I64  # the edge to each of `points` from the one before it; NONE where `begins`
    cross: I64  # edges that lead from level to level, by level and head
    cross_firsts: tuple[int, ...]  # where each level begins in `cross`, and the end
    tail_place: I64  # of each of `cross`: the place of its tail in `points`
    head_place: I64


def plan_of(edges: Edges, points: int) -> ReplayPlan:
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
    return ReplayPlan(
        points=order,
        firsts=tuple(np.searchsorted(level[order], levels).tolist()),
        begins=begins_piece[order],
        along=along[order],
        cross=cross,
        cross_firsts=tuple(np.searchsorted(level[edges.head[cross]], levels).tolist()),
        tail_place=place[edges.tail[cross]],
        head_place=place[edges.head[cross]],
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
    """How often the longest way to each point changes its chain. Raises ValueError where points wait for each other."""
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
        raise ValueError(f"{points - done} points wait for each other")
    return np.array(level, np.int64)


def replayed(edges: Edges, plan: ReplayPlan, delays_ns: I64, begin_ns: int) -> I64:
    """[point, scenario]: when each point comes with these delays, [edge, scenario]. What has nothing left to wait for
    comes at the beginning."""
    scenarios = delays_ns.shape[1]
    if not len(edges):
        return np.full((len(plan.points), scenarios), begin_ns, np.int64)
    times_ns = np.empty((len(plan.points), scenarios), np.int64)
    at_once = max(1, _MOST_CELLS // max(len(edges), 1))
    for low in range(0, scenarios, at_once):
        some = slice(low, min(low + at_once, scenarios))
        times_ns[plan.points, some] = _in_plan_order(plan, delays_ns[:, some], begin_ns)
    return times_ns


def _in_plan_order(plan: ReplayPlan, delays_ns: I64, begin_ns: int) -> I64:
    along_ns = np.where((plan.along == NONE)[:, None], 0, delays_ns[plan.along])
    cross_ns = delays_ns[plan.cross]
    times_ns = np.full((len(plan.points), delays_ns.shape[1]), begin_ns, np.int64)
    farthest_ns = int(np.abs(along_ns).sum(axis=0).max(initial=0)) + abs(begin_ns) + 1
    for level in range(len(plan.firsts) - 1):
        low, high = plan.firsts[level], plan.firsts[level + 1]
        arrivals_ns = _arrivals(plan, cross_ns, times_ns, level)
        begins = plan.begins[low:high]
        if begins.all():
            times_ns[low:high] = np.maximum(arrivals_ns, begin_ns)
            continue
        arrivals_ns[begins] = np.maximum(arrivals_ns[begins], begin_ns)
        farthest_ns = max(farthest_ns, int(arrivals_ns.max()))
        for piece in _pieces(begins, farthest_ns):
            here = slice(low + piece.start, low + piece.stop)
            times_ns[here] = _along(arrivals_ns[piece], along_ns[here], begins[piece], farthest_ns)
    return times_ns


def _arrivals(plan: ReplayPlan, cross_ns: I64, times_ns: I64, level: int) -> I64:
    """When each point of a level could come for what it waits for in levels before."""
    low, high = plan.firsts[level], plan.firsts[level + 1]
    first, last = plan.cross_firsts[level], plan.cross_firsts[level + 1]
    arrivals_ns = np.full((high - low, times_ns.shape[1]), GONE_NS)
    if first == last:
        return arrivals_ns
    heads = plan.head_place[first:last]
    ready_ns = times_ns[plan.tail_place[first:last]] + cross_ns[first:last]
    begin = np.flatnonzero(np.append(True, heads[1:] != heads[:-1]))
    arrivals_ns[heads[begin] - low] = np.maximum.reduceat(ready_ns, begin)
    return arrivals_ns


def _pieces(begins: Column, farthest_ns: int) -> Iterator[slice]:
    """Whole chains, as many at once as can be kept apart in 64 bits."""
    most = max(1, _LIMIT // (8 * farthest_ns))
    firsts = np.flatnonzero(begins)[::most].tolist()
    for first, last in zip(firsts, [*firsts[1:], len(begins)], strict=True):
        yield slice(first, last)


def _along(arrivals_ns: I64, along_ns: I64, begins: Column, farthest_ns: int) -> I64:
    """Times along chains that stand one behind the other, each far above the one before it."""
    sums_ns = np.cumsum(along_ns, axis=0)
    chain = np.cumsum(begins) - 1
    apart_ns = (chain * (4 * farthest_ns))[:, None]
    times_ns = arrivals_ns - sums_ns
    times_ns += apart_ns
    np.maximum.accumulate(times_ns, axis=0, out=times_ns)
    times_ns += sums_ns
    times_ns -= apart_ns
    return times_ns
