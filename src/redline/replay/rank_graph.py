"""A rank as a graph of what waited for what. Replayed unchanged, it is the trace to the nanosecond.

Points are beginnings and ends of device work, beginnings of calls that launch, ends of calls that waited, and borders
of steps. By rule, the delay of an edge is what is usual in the trace: one latency of launches, one gap between queued
work. In the exact delays, what a start took beyond that stays with the edge that decided it. A replay by rules alone
is the honest test: it says how much of the timeline the recorded dependencies explain.
"""

from dataclasses import dataclass

import numpy as np

from redline.ledger.rank.activity import window_of
from redline.ledger.rank.exchanges import NamedExchanges, series_of
from redline.replay.blocked_calls import BlockedCalls, blocked_calls
from redline.replay.cpu_order import recorded_work
from redline.replay.device_order import Latencies, StreamOrder, latencies_of, stream_order
from redline.replay.edges import EdgeKind, EdgeList, Edges
from redline.replay.explained import Explained
from redline.replay.host_order import HostPoints, add_host_order, hand_overs_of, main_lane
from redline.replay.loader_batches import loader_batches
from redline.replay.recorded_order import RecordedWork
from redline.replay.replay import GONE_NS
from redline.replay.residuals import FAR_NS, NEVER_NS, arrivals_by_rule, with_residuals
from redline.replay.step_points import BorderPoints, StepBorders, TimedPoints, borders_of
from redline.replay.stream_waits import COINCIDENCE_NS, StreamWaits, coinciding_waits, waits_between_streams
from redline.timeline.table import I64, Column
from redline.timeline.timeline import NONE, Kind, Timeline
from redline.trace.steps import IN_SEQUENCE

ORIGIN = 0  # the point from which the window begins
UNEXPLAINED_NS = 20_000  # a start that comes this much later than all that it waited for
_UNEXPLAINED_ON_CPU_NS = 1_000_000  # threads wait for cores, too


@dataclass(frozen=True, kw_only=True)
class RankExchanges:
    """What a rank exchanged with others, in order of start."""

    start: I64  # points
    end: I64
    named: NamedExchanges


@dataclass(frozen=True, kw_only=True)
class RankGraph:
    """Points and edges of one rank; point 0 is the beginning of its window."""

    rank: int
    zero_ns: int
    time_ns: I64  # of each point, as measured
    edges: Edges  # in order of head, with exact delays
    by_rule_ns: I64  # delay of each edge by the rules of the trace
    step_points: Column  # [step, 2]: where each step begins and ends
    work_row: I64  # device work, by place: its row, and the points of its start and end
    work_start: I64
    work_end: I64
    call_row: I64  # launching and blocking calls: row, and points of start and end; NONE where the end is no point
    call_start: I64
    call_end: I64
    mark_point: I64  # marks of steps on the host, and the thread that they are on
    mark_lane: I64
    exchanges: RankExchanges
    latencies: Latencies
    explained: Explained

    def __len__(self) -> int:
        return len(self.time_ns)


def graph_of(timeline: Timeline) -> RankGraph:
    return _Building(timeline).graph()


class _Building:
    """The parts of a graph, and the numbers of its points."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.work: RecordedWork = recorded_work(timeline)
        self.blocked: BlockedCalls = blocked_calls(timeline, self.work)
        self.window_ns = window_of(timeline)
        self.edges = EdgeList()
        self._times: list[I64] = []
        self._new_points(np.array([self.window_ns[0]]))
        self.work_start = self._new_points(self.work.start_ns)
        self.work_end = self._new_points(self.work.end_ns)
        self.call_start = self._new_points(self.work.call_start_ns)
        self.call_end = np.full(len(self.work.calls), NONE)
        self.call_end[self.blocked.call] = self._new_points(self.work.call_end_ns[self.blocked.call])

    def _new_points(self, time_ns: I64) -> I64:
        first = sum(map(len, self._times))
        self._times.append(time_ns.astype(np.int64))
        return first + np.arange(len(time_ns), dtype=np.int64)

    def graph(self) -> RankGraph:
        step_points = self._hosts_and_steps()
        order = stream_order(self.work)
        latencies = latencies_of(self.timeline, self.work, order)
        self._ends_of_calls(latencies)
        explained = self._device(order, latencies)
        time_ns = np.concatenate(self._times)
        edges = self.edges.in_order_of_head()
        return RankGraph(
            rank=self.timeline.rank,
            zero_ns=self.timeline.zero_ns,
            time_ns=time_ns,
            edges=with_residuals(edges, time_ns),
            by_rule_ns=edges.delay_ns,
            step_points=step_points,
            work_row=self.work.row,
            work_start=self.work_start,
            work_end=self.work_end,
            call_row=self.work.calls,
            call_start=self.call_start,
            call_end=self.call_end,
            mark_point=self._marks.number,
            mark_lane=self._mark_lane,
            exchanges=self._exchanges(),
            latencies=latencies,
            explained=explained,
        )

    # --- the host ---

    def _hosts_and_steps(self) -> Column:
        work, blocked, spans = self.work, self.blocked, self.timeline.spans
        home = main_lane(self.timeline, work.lanes, work.launch)
        is_marked = home != NONE and not self.timeline.step_anchor.startswith(IN_SEQUENCE)
        borders = borders_of(self.timeline, self.window_ns, is_marked=is_marked)
        marks = TimedPoints(number=self._new_points(borders.marks_ns), time_ns=borders.marks_ns)
        self._marks, self._mark_lane = marks, np.full(len(marks.number), home)
        called = work.calls[blocked.call]
        points = HostPoints(
            number=np.concatenate([self.call_start, self.call_end[blocked.call], marks.number]),
            time_ns=np.concatenate([work.call_start_ns, work.call_end_ns[blocked.call], marks.time_ns]),
            lane=np.concatenate([spans.lane[work.calls], spans.lane[called], np.full(len(marks.number), home)]),
            own_ns=np.concatenate([np.full(len(work.calls), NONE), blocked.own_ns, np.full(len(marks.number), NONE)]),
        )
        hand_overs = hand_overs_of(self.timeline, work.lanes)
        wakes = self._new_points(hand_overs.time_ns)
        add_host_order(points, hand_overs, wakes, self.edges)
        self._pin_first(np.concatenate([points.number, wakes]))
        self._add_batches(points)
        return self._borders(borders, marks, points, home)

    def _add_batches(self, points: HostPoints) -> None:
        """From what a thread did first with each batch to what it did first with the next: for scenarios with more
        workers. As it was measured they hold nothing up."""
        batches = loader_batches(self.timeline)
        if batches is None:
            return
        here = points.lane == batches.lane
        thread = TimedPoints.of(points.number[here], points.time_ns[here])
        at = np.searchsorted(thread.time_ns, batches.end_ns)
        point = thread.number[at[at < len(thread.number)]]
        if len(np.unique(point)) == len(point):
            self.edges.add(EdgeKind.LOADER, point[:-1], point[1:], GONE_NS, lane=batches.lane)

    def _pin_first(self, points: I64) -> None:
        """Points that nothing is known to have led to: where threads begin."""
        reached = np.zeros(sum(map(len, self._times)), bool)
        reached[self.edges.as_found().head] = True
        first = points[~reached[points]]
        self.edges.add(EdgeKind.PIN, ORIGIN, first, np.concatenate(self._times)[first] - self.window_ns[0])

    def _borders(self, borders: StepBorders, marks: TimedPoints, points: HostPoints, home: int) -> Column:
        here = points.lane == home
        added = BorderPoints(borders, sum(map(len, self._times)), self.edges, (ORIGIN, self.window_ns[0]))
        ends = zip(self.work.row.tolist(), self.work_end.tolist(), self.work.end_ns.tolist(), strict=True)
        step_points = added.add(
            marks,
            TimedPoints.of(points.number[here], points.time_ns[here]),
            TimedPoints.of(
                np.concatenate([self.work_start, self.work_end]),
                np.concatenate([self.work.start_ns, self.work.end_ns]),
            ),
            {row: (point, end_ns) for row, point, end_ns in ends},
        )
        self._new_points(np.array(added.times_ns, np.int64))
        return step_points

    def _ends_of_calls(self, latencies: Latencies) -> None:
        """Calls that waited return a little after what they waited for."""
        work, blocked = self.work, self.blocked
        place = blocked.call[blocked.waiting]
        returned_ns = work.call_end_ns[place]
        until_ns = np.where(blocked.from_start, work.start_ns[blocked.work], work.end_ns[blocked.work])
        tail = np.where(blocked.from_start, self.work_start[blocked.work], self.work_end[blocked.work])
        delay_ns = np.minimum(latencies.return_ns, returned_ns - until_ns)
        for chosen, kind in ((~blocked.from_start, EdgeKind.WAIT), (blocked.from_start, EdgeKind.QUEUE)):
            self.edges.add(
                kind, tail[chosen], self.call_end[place[chosen]], delay_ns[chosen], row=work.calls[place[chosen]]
            )

    def _exchanges(self) -> RankExchanges:
        place = np.flatnonzero(self.timeline.spans.kind[self.work.row] == Kind.COMMUNICATION)
        named = series_of(self.timeline, self.work.row[place])
        return RankExchanges(start=self.work_start[place], end=self.work_end[place], named=named)

    # --- the device ---

    def _device(self, order: StreamOrder, latencies: Latencies) -> Explained:
        work = self.work
        is_transfer = self.timeline.spans.kind[work.row] == Kind.COMMUNICATION
        for chosen, kind in ((~is_transfer, EdgeKind.DEVICE), (is_transfer, EdgeKind.TRANSFER)):
            self.edges.add(
                kind,
                self.work_start[chosen],
                self.work_end[chosen],
                (work.end_ns - work.start_ns)[chosen],
                row=work.row[chosen],
            )
        starts = EdgeList()
        call = np.searchsorted(work.calls, work.launch)
        known = np.flatnonzero(work.is_launched)
        launch = self.call_start[call[known]]
        starts.add(EdgeKind.LAUNCH, launch, self.work_start[known], latencies.launch_ns, row=work.row[known])
        after = np.flatnonzero((order.before != NONE) & ~order.overlaps)
        starts.add(EdgeKind.STREAM, self.work_end[order.before[after]], self.work_start[after], latencies.gap_ns)
        over = np.flatnonzero(order.overlaps)
        apart_ns = work.start_ns[over] - work.start_ns[order.before[over]]
        earlier = order.before[over]
        starts.add(EdgeKind.STREAM, self.work_start[earlier], self.work_start[over], apart_ns, row=work.row[earlier])
        waits = waits_between_streams(self.timeline, work)
        self._add_waits(starts, waits, latencies)
        late_ns = self._late_ns(starts)
        guessed = coinciding_waits(work, np.flatnonzero(late_ns > COINCIDENCE_NS))
        self._add_waits(starts, guessed, latencies)
        late_ns = self._late_ns(starts)
        pinned = np.flatnonzero(late_ns == FAR_NS)
        self.edges.add(
            EdgeKind.PIN,
            ORIGIN,
            self.work_start[pinned],
            work.start_ns[pinned] - self.window_ns[0],
            row=work.row[pinned],
        )
        self.edges.extend(starts)
        limit_ns = _UNEXPLAINED_ON_CPU_NS if work.on_cpu else UNEXPLAINED_NS
        return Explained(
            starts=len(work.row),
            unexplained=int((late_ns > limit_ns).sum()),
            unexplained_ns=int(late_ns[(late_ns > limit_ns) & (late_ns < FAR_NS)].sum()),
            waits_recorded=waits.recorded,
            waits_inferred=waits.inferred,
            waits_guessed=len(guessed.later),
        )

    def _add_waits(self, starts: EdgeList, waits: StreamWaits, latencies: Latencies) -> None:
        starts.add(EdgeKind.EVENT, self.work_end[waits.earlier], self.work_start[waits.later], latencies.gap_ns)

    def _late_ns(self, starts: EdgeList) -> I64:
        """How much later than all that it waited for each piece began; FAR_NS for what waited for nothing."""
        time_ns = np.concatenate(self._times)
        arrival_ns = arrivals_by_rule(starts.in_order_of_head(), time_ns)
        return np.where(
            arrival_ns[self.work_start] == NEVER_NS, FAR_NS, self.work.start_ns - arrival_ns[self.work_start]
        )
