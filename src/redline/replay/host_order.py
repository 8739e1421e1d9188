"""The order in which threads of the host did things, and where one went on when another had stopped.

forward thread   [a ][b ]            [e ]        a > b, then the other thread: b > c > d, and back: d > e
backward thread          [c ][d ]
"""

from dataclasses import dataclass

import numpy as np

from redline.ledger.rank.activity import Mask
from redline.replay.edges import EdgeKind, EdgeList
from redline.timeline.intervals import Intervals
from redline.timeline.table import I32, I64, Column, grouped
from redline.timeline.timeline import CALL_KINDS, NONE, Kind, Timeline

_MOST_LANES = 64  # threads among which hand-overs are looked for


@dataclass(frozen=True, kw_only=True)
class HostPoints:
    """Points on threads, in order on each. A point that ends a call that waited comes by its own edges as well."""

    number: I64  # of the point in the graph
    time_ns: I64
    lane: I64
    own_ns: I64  # of a call that waited: what it takes by itself; NONE of other points

    def in_order(self) -> "HostPoints":
        """By thread, and in order of time on each; of those at one time the ends come first."""
        order = np.lexsort((np.where(self.own_ns == NONE, 1, 0), self.time_ns, self.lane))
        columns = (self.number[order], self.time_ns[order], self.lane[order], self.own_ns[order])
        return HostPoints(**dict(zip(("number", "time_ns", "lane", "own_ns"), columns, strict=True)))


@dataclass(frozen=True, kw_only=True)
class HandOvers:
    """Where a thread began again after it had slept, just when another had stopped."""

    time_ns: I64  # when it began again
    lane: I64
    asleep_ns: I64  # since when it had slept
    other: I64  # the thread that had stopped before


def add_host_order(points: HostPoints, hand_overs: HandOvers, wakes: I64, edges: EdgeList) -> None:
    """Edges from each point of a thread to the next; `wakes` are the points of the hand-overs."""
    every = HostPoints(
        number=np.concatenate([points.number, wakes]),
        time_ns=np.concatenate([points.time_ns, hand_overs.time_ns]),
        lane=np.concatenate([points.lane, hand_overs.lane]),
        own_ns=np.concatenate([points.own_ns, np.full(len(wakes), NONE)]),
    ).in_order()
    asleep_ns = np.full(int(every.number.max(initial=0)) + 1, NONE)
    asleep_ns[wakes] = hand_overs.asleep_ns
    goes_on = np.flatnonzero(every.lane[1:] == every.lane[:-1])
    tail, head = goes_on, goes_on + 1
    delay_ns = every.time_ns[head] - every.time_ns[tail]
    is_return = every.own_ns[head] != NONE
    slept = asleep_ns[every.number[head]]
    delay_ns = np.where(is_return, np.minimum(delay_ns, every.own_ns[head]), delay_ns)
    delay_ns = np.where(slept != NONE, np.clip(slept - every.time_ns[tail], 0, delay_ns), delay_ns)
    for chosen, kind in ((is_return, EdgeKind.RETURN), (~is_return, EdgeKind.HOST)):
        edges.add(
            kind,
            every.number[tail[chosen]],
            every.number[head[chosen]],
            delay_ns[chosen],
            lane=every.lane[head[chosen]],
        )
    _add_hand_overs(every, hand_overs, wakes, edges)


def _add_hand_overs(every: HostPoints, hand_overs: HandOvers, wakes: I64, edges: EdgeList) -> None:
    """From the last point of the thread that had stopped to the beginning of the other."""
    points_of = dict(grouped(every.lane))
    for lane, here in grouped(hand_overs.other):
        places = points_of.get(lane, np.empty(0, np.int64))
        at = np.searchsorted(every.time_ns[places], hand_overs.time_ns[here], side="left") - 1
        known = here[at >= 0]
        tail = places[at[at >= 0]]
        delay_ns = hand_overs.time_ns[known] - every.time_ns[tail]
        edges.add(EdgeKind.HOST, every.number[tail], wakes[known], delay_ns, lane=lane)


def hand_overs_of(timeline: Timeline, lanes: I64) -> HandOvers:
    """Among these threads: what began again after a sleep in which another stopped that did not go on."""
    if not 1 < len(lanes) <= _MOST_LANES:
        return _no_hand_overs()
    active = {lane: _active(timeline, lane) for lane in lanes.tolist()}
    found = [_woken(lane, active) for lane in active]
    columns = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return HandOvers(**dict(zip(("time_ns", "lane", "asleep_ns", "other"), columns, strict=True)))


def _active(timeline: Timeline, lane: int) -> Intervals:
    """When a thread ran operators or calls."""
    spans, rows = timeline.spans, timeline.rows_of_lane(lane)
    rows = rows[np.isin(spans.kind[rows], np.array((Kind.OPERATOR, *CALL_KINDS), np.uint8))]
    return Intervals.union_of(spans.start_ns[rows], spans.end_ns[rows])


def _woken(lane: int, active: dict[int, Intervals]) -> tuple[I64, I64, I64, I64]:
    """Of each sleep of a thread the other one that stopped last in it and slept when it ended."""
    mine = active[lane]
    since_ns, until_ns = np.append(0, mine.end[:-1])[: len(mine)], mine.start
    latest_ns, whose = np.full(len(mine), NONE), np.full(len(mine), NONE)
    for other, theirs in active.items():
        if other == lane or not len(theirs):
            continue
        stopped_ns, is_asleep = _stopped(theirs, until_ns)
        better = is_asleep & (stopped_ns > since_ns) & (stopped_ns > latest_ns)
        latest_ns[better], whose[better] = stopped_ns[better], other
    woken = np.flatnonzero(whose != NONE)
    return until_ns[woken], np.full(len(woken), lane), since_ns[woken], whose[woken]


def _stopped(theirs: Intervals, at_ns: I64) -> tuple[I64, Mask]:
    """When a thread had last stopped at each time, and whether it was asleep then."""
    before = np.searchsorted(theirs.start, at_ns, side="right") - 1
    stopped_ns = np.where(before >= 0, theirs.end[before], NONE)
    is_asleep: Mask = stopped_ns <= at_ns
    return stopped_ns, is_asleep


def _no_hand_overs() -> HandOvers:
    empty = np.empty(0, np.int64)
    return HandOvers(time_ns=empty, lane=empty, asleep_ns=empty, other=empty)


def main_lane(timeline: Timeline, lanes: I64, launch: I64 | I32) -> int:
    """The thread whose loop the steps are: it begins regions or operators where steps begin, else it launches most."""
    if not len(lanes):
        return NONE
    spans = timeline.spans
    regions = spans.rows_of(Kind.ANNOTATION, Kind.OPERATOR)
    at_mark = regions[np.isin(spans.start_ns[regions], timeline.steps.start_ns)]
    begun: Column = spans.lane[at_mark[np.isin(spans.lane[at_mark], lanes)]]
    if not len(begun):
        begun = spans.lane[launch[launch != NONE]]
    return int(np.bincount(begun).argmax()) if len(begun) else int(lanes[0])
