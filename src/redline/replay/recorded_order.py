"""What a replay is made of: device work with its launch and streams, calls of the host in order, hand-overs."""

import numpy as np

from redline.ledger.rank.activity import Mask, own_time_of_operators
from redline.ledger.rank.name_matching import matching
from redline.replay.edges import EdgeKind, EdgeList
from redline.timeline.intervals import Intervals
from redline.timeline.table import I32, I64, Column, grouped, numbers_in
from redline.timeline.timeline import BUSY_KINDS, CALL_KINDS, NONE, Kind, Timeline
from redline.trace import schema
from redline.values import dataclass

_FREE_NS = 2_000  # a stream that was done this long before a launch did not hold its work up
_QUEUED_NS = 30_000  # a launch this long before the stream was done did not hold its work up
_LAUNCH_QUANTILE = 0.2  # a median would take waiting for other streams for latency
_SHORTEST_LAUNCH_NS, _LONGEST_LAUNCH_NS, _USUAL_LAUNCH_NS = 1_000, 30_000, 6_000
_LONGEST_GAP_NS, _USUAL_GAP_NS = 20_000, 1_000
_LONGEST_WAKING_NS = 500_000  # of a thread of the backend, which may have to wait for a core
RETURN_NS = 3_000  # from the end of the work that the host waits for to the end of the call
_SHORTEST_PAUSE_NS = 50_000  # a thread that waits for an exchange does nothing else for longer
_AWAKE_NS = 500_000  # and computes again this soon after it; other ranks may have its core
_MOST_LANES = 64  # threads among which hand-overs are looked for


@dataclass(frozen=True, kw_only=True)
class RecordedWork:
    """Device work in order of start, and the calls that launched it or waited for it."""

    row: I64  # of device work, in the timeline's spans
    start_ns: I64
    end_ns: I64
    lane: I64
    launch: I64  # row of the call that launched it; NONE where it is not recorded
    calls: I64  # rows of the calls that launch or block, ascending; of a thread that asks again and again, the last
    call_start_ns: I64  # of the first, where a thread asks again and again
    call_end_ns: I64
    waits: Mask  # which of the calls wait for a stream, an event or the device
    asks: Mask  # which of the calls end a row of questions whether an event has happened
    lanes: I64  # threads of these calls; on a CPU all that run operators, the busiest first
    on_cpu: bool = False  # operators are the work; exchanges run on threads of their own

    @property
    def is_launched(self) -> Mask:
        is_launched: Mask = self.launch != NONE
        return is_launched

    def launched_ns(self, timeline: Timeline) -> I64:
        """When each piece was launched; 0 where it is not recorded."""
        return np.where(self.is_launched, timeline.spans.start_ns[self.launch], 0)

    def in_order_of_launch(self, timeline: Timeline) -> dict[int, I64]:
        """For each stream the places of its work whose launch is known."""
        launched_ns = self.launched_ns(timeline)
        launched = np.flatnonzero(self.is_launched)
        launched = launched[np.argsort(launched_ns[launched], kind="stable")]
        return {lane: launched[here] for lane, here in grouped(self.lane[launched])}


def device_work(timeline: Timeline) -> RecordedWork:
    spans, work = timeline.spans, timeline.device_work
    place = np.flatnonzero(np.isin(spans.kind[work.row], np.array(BUSY_KINDS, np.uint8)))
    row, launch = work.row[place].astype(np.int64), work.launch[place].astype(np.int64)
    launch = np.where(spans.start_ns[launch] <= spans.start_ns[row], launch, NONE)  # ran before it was launched: wrong
    calls = spans.rows_of(*CALL_KINDS)
    waits = matching(timeline, calls, schema.waits_for_device)
    asks = matching(timeline, calls, schema.asks_for_event)
    launching = np.zeros(len(spans) + 1, bool)
    launching[launch] = True
    launching[NONE] = False
    lanes = np.array(numbers_in(spans.lane[np.flatnonzero(launching[:-1])]), np.int64)
    chosen = (launching[calls] | waits | asks) & np.isin(spans.lane[calls], lanes)
    calls, waits, asks = calls[chosen], waits[chosen], asks[chosen]
    first, last = _rows_of_questions(spans.lane[calls], asks)
    start_ns = spans.start_ns[calls]
    start_ns[last] = start_ns[first]
    kept = ~asks
    kept[last] = True
    return RecordedWork(
        row=row,
        start_ns=spans.start_ns[row],
        end_ns=spans.end_ns[row],
        lane=spans.lane[row].astype(np.int64),
        launch=launch,
        calls=calls[kept],
        call_start_ns=start_ns[kept],
        call_end_ns=spans.end_ns[calls[kept]],
        waits=waits[kept],
        asks=asks[kept],
        lanes=lanes,
    )


def _rows_of_questions(lane: Column, asks: Mask) -> tuple[I64, I64]:
    """First and last of the questions that a thread asks one after the other, without launching anything between."""
    order = np.argsort(lane, kind="stable")
    asking, thread = asks[order], lane[order]
    goes_on = asking[1:] & asking[:-1] & (thread[1:] == thread[:-1])
    begins = asking & ~np.append(False, goes_on)[: len(asking)]
    ends = asking & ~np.append(goes_on, False)[: len(asking)]
    return order[begins], order[ends]


def runs_on_cpu(timeline: Timeline) -> bool:
    """Whether operators are the work, as there is no device in the trace."""
    on_device = np.array([lane.on_device for lane in timeline.lanes], bool)
    return not on_device[timeline.spans.lane[timeline.spans.rows_of(*BUSY_KINDS)]].any()


@dataclass(frozen=True, kw_only=True)
class Latencies:
    """What starts take after what they waited for, as a rule of this trace."""

    launch_ns: int  # from the start of a launch to its work on a free stream
    gap_ns: int  # between two pieces of work that were both in the queue
    return_ns: int = RETURN_NS


@dataclass(frozen=True, kw_only=True)
class StreamOrder:
    """For each piece of device work the one before it on its stream."""

    before: I64  # place of it; NONE for the first
    overlaps: Mask  # whether that one still ran


def stream_order(work: RecordedWork) -> StreamOrder:
    before = np.full(len(work.row), NONE)
    for _, here in grouped(work.lane):
        before[here[1:]] = here[:-1]
    return StreamOrder(before=before, overlaps=(before != NONE) & (work.end_ns[before] > work.start_ns))


def latencies_of(timeline: Timeline, work: RecordedWork, order: StreamOrder) -> Latencies:
    launched_ns = work.launched_ns(timeline)
    has_before = order.before != NONE
    done_ns = work.end_ns[order.before] if len(work.row) else work.end_ns
    free = work.is_launched & (~has_before | (done_ns < launched_ns - _FREE_NS))
    queued = work.is_launched & has_before & (done_ns > launched_ns + _QUEUED_NS) & ~order.overlaps
    launch_ns, gap_ns = float(_USUAL_LAUNCH_NS), float(_USUAL_GAP_NS)
    if free.any():
        launch_ns = float(np.quantile((work.start_ns - launched_ns)[free], _LAUNCH_QUANTILE))
    if queued.any():
        gap_ns = float(np.median((work.start_ns - done_ns)[queued]))
    longest_ns = _LONGEST_WAKING_NS if work.on_cpu else _LONGEST_LAUNCH_NS
    return Latencies(
        launch_ns=int(np.clip(launch_ns, _SHORTEST_LAUNCH_NS, longest_ns)),
        gap_ns=int(np.clip(gap_ns, 0, _LONGEST_GAP_NS)),
    )


def recorded_work(timeline: Timeline) -> RecordedWork:
    return cpu_work(timeline) if runs_on_cpu(timeline) else device_work(timeline)


def cpu_work(timeline: Timeline) -> RecordedWork:
    """Exchanges on threads of their own, the operators that asked for them, and the pauses in which one ended.

    thread     [a ][ask][b ]         [c ]       c began just after the exchange had ended: the thread waited for it
    backend            [== exchange ==]
    """
    spans = timeline.spans
    exchanges = spans.rows_of(Kind.COMMUNICATION)
    operators = spans.rows_of(Kind.OPERATOR)
    lanes = np.array(numbers_in(spans.lane[operators]), np.int64)
    lanes = lanes[np.argsort(-np.bincount(spans.lane[operators], minlength=len(timeline.lanes))[lanes], kind="stable")]
    exchanges = exchanges[~np.isin(spans.lane[exchanges], lanes[:1])]
    asking = operators[matching(timeline, operators, schema.asks_for_exchange)]
    launch = _asked_by(spans.start_ns[asking], spans.start_ns[exchanges], asking)
    paused_ns, after = _pauses(timeline, spans.end_ns[exchanges], lanes)
    calls = np.concatenate([np.unique(launch[launch != NONE]), after])
    start_ns, end_ns = spans.start_ns[calls], spans.end_ns[calls]
    waits = np.arange(len(calls)) >= len(calls) - len(after)
    start_ns[waits], end_ns[waits] = paused_ns, spans.start_ns[after]
    order = np.argsort(calls, kind="stable")
    return RecordedWork(
        row=exchanges,
        start_ns=spans.start_ns[exchanges],
        end_ns=spans.end_ns[exchanges],
        lane=spans.lane[exchanges].astype(np.int64),
        launch=launch,
        calls=calls[order],
        call_start_ns=start_ns[order],
        call_end_ns=end_ns[order],
        waits=waits[order],
        asks=np.zeros(len(calls), bool),
        lanes=lanes,
        on_cpu=True,
    )


def _asked_by(asked_ns: I64, began_ns: I64, asking: I64) -> I64:
    """For each exchange the operator that asked for it: they begin in the order in which they are asked for, as far as
    as many were asked for before each as had begun."""
    if not len(asking):
        return np.full(len(began_ns), NONE)
    last = np.searchsorted(asked_ns, began_ns, side="right") - 1
    in_order = len(asking) - len(began_ns) + np.arange(len(began_ns))
    place = np.where((in_order >= 0) & (in_order <= last), in_order, last)
    return np.where(place >= 0, asking[place], NONE)


def _pauses(timeline: Timeline, ended_ns: I64, lanes: I64) -> tuple[I64, I64]:
    """Where a thread that had computed did so again just after an exchange had ended: since when it had not, and the
    operator with which it began again."""
    rows, start_ns, stop_ns = own_time_of_operators(timeline)
    lane = timeline.spans.lane[rows]
    ended_ns = np.sort(ended_ns)
    since, after = [], []
    for number, here in grouped(lane):
        if number not in lanes or not len(ended_ns):
            continue
        paused_ns, again_ns = stop_ns[here[:-1]], start_ns[here[1:]]
        done_ns = np.append(NONE, ended_ns)[np.searchsorted(ended_ns, again_ns, side="right")]
        waited = (done_ns - paused_ns > _SHORTEST_PAUSE_NS) & (again_ns - done_ns < _AWAKE_NS)
        is_beginning = start_ns[here[1:]] == timeline.spans.start_ns[rows[here[1:]]]
        since.append(paused_ns[waited & is_beginning])
        after.append(rows[here[1:][waited & is_beginning]])
    empty = np.empty(0, np.int64)
    return np.concatenate([empty, *since]), np.concatenate([empty, *after]).astype(np.int64)


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
    """Where one thread went on when another had stopped.

    forward thread   [a ][b ]            [e ]        a > b, then the other thread: b > c > d, and back: d > e
    backward thread          [c ][d ]
    """
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
