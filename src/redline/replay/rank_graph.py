"""A rank as a graph of what waited for what. Replayed unchanged, it is the trace to the nanosecond.

Points are beginnings and ends of device work, beginnings of calls that launch, ends of calls that waited, and borders
of steps. By rule, the delay of an edge is what is usual in the trace: one latency of launches, one gap between queued
work. In the exact delays, what a start took beyond that stays with the edge that decided it. A replay by rules alone
is the honest test: it says how much of the timeline the recorded dependencies explain.
"""

from collections.abc import Iterator

import numpy as np

from redline.ledger.rank.activity import Mask, window_of
from redline.ledger.rank.exchanges import NamedExchanges, series_of
from redline.ledger.rank.name_matching import matching
from redline.ledger.rank.step_borders import last_work_of_steps, step_borders
from redline.replay.edges import (
    FAR_NS,
    NEVER_NS,
    EdgeKind,
    EdgeList,
    Edges,
    Explained,
    arrivals_by_rule,
    with_residuals,
)
from redline.replay.recorded_order import (
    HostPoints,
    Latencies,
    RecordedWork,
    StreamOrder,
    add_host_order,
    hand_overs_of,
    latencies_of,
    main_lane,
    recorded_work,
    stream_order,
)
from redline.replay.replay import GONE_NS
from redline.replay.stream_waits import (
    COINCIDENCE_NS,
    BlockedCalls,
    StreamWaits,
    blocked_calls,
    coinciding_waits,
    waits_between_streams,
)
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64, Column
from redline.timeline.timeline import NONE, Kind, Timeline
from redline.trace import schema
from redline.trace.steps import IN_SEQUENCE
from redline.values import dataclass

ORIGIN = 0  # the point from which the window begins
UNEXPLAINED_NS = 20_000  # a start that comes this much later than all that it waited for
_UNEXPLAINED_ON_CPU_NS = 1_000_000  # threads wait for cores, too
_Tail = tuple[int, int]  # point, its time
_WAITED_NS, _WAITED_SHARE = 1_000_000, 0.05  # taking a batch that is there takes less, also as a share of the interval
NOT_COUNTED = "the trace does not say how many workers the data loader has"
NOT_WAITED = "the loop does not wait for the workers of its data loader, so what a batch takes them does not show"


@dataclass(frozen=True, kw_only=True)
class TimedPoints:
    """Points in order of time."""

    number: I64
    time_ns: I64

    @classmethod
    def of(cls, number: I64, time_ns: I64) -> "TimedPoints":
        order = np.argsort(time_ns, kind="stable")
        return cls(number=number[order], time_ns=time_ns[order])

    def last_until(self, at_ns: int) -> Iterator[_Tail]:
        at = int(np.searchsorted(self.time_ns, at_ns, side="right")) - 1
        if at >= 0:
            yield int(self.number[at]), int(self.time_ns[at])


@dataclass(frozen=True, kw_only=True)
class StepBorders:
    """When steps begin and end, and what decides it."""

    start_ns: I64
    end_ns: I64
    marks_ns: I64  # of the host, inside the window, each once
    marked_end_ns: I64  # of each step: when the host marked its end
    last_row: I64  # of each step: the work that it launched on the busiest stream and that ended last; NONE for none


def borders_of(timeline: Timeline, window_ns: tuple[int, int], *, is_marked: bool) -> StepBorders:
    start_ns, end_ns = step_borders(timeline, window_ns)
    steps = timeline.steps
    marks_ns = np.unique(np.clip(np.concatenate([steps.start_ns, steps.end_ns]), *window_ns))
    return StepBorders(
        start_ns=start_ns,
        end_ns=end_ns,
        marks_ns=marks_ns if is_marked else marks_ns[:0],
        marked_end_ns=np.clip(steps.end_ns, *window_ns),
        last_row=last_work_of_steps(timeline),
    )


class BorderPoints:
    """Adds the points of borders, which are numbered from `first` on, and their edges."""

    def __init__(self, borders: StepBorders, first: int, edges: EdgeList, origin: _Tail) -> None:
        self._borders, self._first, self._edges, self._origin = borders, first, edges, origin
        self.times_ns: list[int] = []

    def add(self, marks: TimedPoints, host: TimedPoints, device: TimedPoints, ended: dict[int, _Tail]) -> Column:
        """[step, 2]: the points where each step begins and ends. `ended` has the end of each row of device work."""
        borders = self._borders
        mark_at = dict(zip(marks.time_ns.tolist(), marks.number.tolist(), strict=True))
        points = np.empty((len(borders.start_ns), 2), np.int64)
        before: _Tail | None = None
        rows = zip(
            *(c.tolist() for c in (borders.start_ns, borders.end_ns, borders.marked_end_ns, borders.last_row)),
            strict=True,
        )
        for step, (start_ns, end_ns, marked_ns, last_row) in enumerate(rows):
            fallback = [*host.last_until(start_ns), *device.last_until(start_ns), self._origin]
            if before is not None and before[1] == start_ns:
                points[step, 0] = before[0]
            else:
                sure = [(mark_at[start_ns], start_ns)] if start_ns in mark_at else []
                points[step, 0] = self._border(start_ns, [*sure, *([before] if before else [])], fallback)
            sure = [(int(points[step, 0]), start_ns)]
            if marked_ns in mark_at:
                sure.append((mark_at[marked_ns], marked_ns))
            if last_row in ended:
                sure.append(ended[last_row])
            fallback = [*host.last_until(end_ns), *device.last_until(end_ns), self._origin]
            points[step, 1] = self._border(end_ns, sure, fallback)
            before = int(points[step, 1]), end_ns
        return points

    def _border(self, at_ns: int, sure: list[_Tail], fallback: list[_Tail]) -> int:
        """After all of `sure`; if none of them is there at the time, after what of `fallback` was there last."""
        point = self._first + len(self.times_ns)
        self.times_ns.append(at_ns)
        head = np.array([point])
        for tail, tail_ns in sure:
            self._edges.add(EdgeKind.BORDER, tail, head, min(0, at_ns - tail_ns))
        if max((tail_ns for _, tail_ns in sure), default=at_ns - 1) < at_ns:
            for tail, _ in fallback:
                self._edges.add(EdgeKind.BORDER, tail, head, 0)
            tail, tail_ns = max((*sure, *fallback), key=lambda known: known[1])
            self._edges.add(EdgeKind.BORDER, tail, head, at_ns - tail_ns)
        return point


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


@dataclass(frozen=True, kw_only=True)
class LoaderBatches:
    """The calls in which a thread got its batches, in order."""

    lane: int
    end_ns: I64
    worker_ns: float = 0.0  # what one worker takes for a batch
    why_unknown: str = ""  # why that is not known


def loader_batches(timeline: Timeline) -> LoaderBatches | None:
    """Of the thread with most batches; None where none loads two."""
    spans = timeline.spans
    rows = spans.rows_of(Kind.ANNOTATION)
    rows = rows[matching(timeline, rows, schema.is_data_loader)]
    lane = int(np.bincount(spans.lane[rows]).argmax()) if len(rows) else 0
    rows = rows[spans.lane[rows] == lane]
    calls = Intervals.union_of(spans.start_ns[rows], spans.end_ns[rows])
    if len(calls) < 2:
        return None
    start_ns, end_ns = calls.start, calls.end
    if matching(timeline, rows, schema.is_loader_in_process).all():
        return LoaderBatches(lane=lane, end_ns=end_ns, worker_ns=float((end_ns - start_ns).mean()))
    loaders = timeline.evidence.facts.loaders
    workers = loaders[0].workers if len(loaders) == 1 else 0
    interval_ns = float(end_ns[-1] - end_ns[0]) / (len(calls) - 1)
    waited = end_ns - start_ns > max(_WAITED_NS, _WAITED_SHARE * interval_ns)
    if not workers:
        return LoaderBatches(lane=lane, end_ns=end_ns, why_unknown=NOT_COUNTED)
    if not _in_each_round(waited, workers):
        return LoaderBatches(lane=lane, end_ns=end_ns, why_unknown=NOT_WAITED)
    return LoaderBatches(lane=lane, end_ns=end_ns, worker_ns=workers * interval_ns)


def _in_each_round(waited: Mask, workers: int) -> bool:
    """Whether the loop waited for one of any so many batches in a row: workers in step bring theirs together."""
    before = np.append(0, np.cumsum(waited))
    return len(waited) > workers and bool((before[workers:] > before[:-workers]).all())
