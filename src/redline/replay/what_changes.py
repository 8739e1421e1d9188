"""What a scenario does to the edges of a rank's graph. Needs the trace; what it gives does not."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from redline.ledger.rank.activity import loader_time, own_time_of_operators
from redline.ledger.rank.name_matching import matching
from redline.replay.changes import Scenario, SpanChange, Target, TimeChange
from redline.replay.edges import EdgeKind
from redline.replay.rank_graph import LoaderBatches, RankGraph, loader_batches
from redline.replay.recorded_order import runs_on_cpu
from redline.timeline.intervals import Intervals
from redline.timeline.nesting import nearest_of
from redline.timeline.table import I64, Column, Table, column, grouped
from redline.timeline.timeline import NONE, Kind, Timeline
from redline.trace.schema import KERNEL_CLASSES, kernel_class
from redline.values import dataclass

NETWORK_LATENCY_NS = 20_000  # at most this of a transfer is latency; where a shorter one of its kind ran, that
_HOST_KINDS = (EdgeKind.HOST, EdgeKind.RETURN)
_DEVICE_KINDS = (EdgeKind.DEVICE, EdgeKind.TRANSFER)
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class WeighedTime:
    """Times of some threads become `factor` times what they were.

    Between two points of the graph a thread may load, compute and launch. Where the loader is gone, what is left of the
    stretch is all of the rest, and not a bit less of everything.
    """

    time: Mapping[int, Intervals]  # by thread
    factor: float
    outside: bool = False  # what is not in these times does, of all threads


class ThreadWeights:
    """Time on one thread as a scenario has it: it runs slower or faster where the scenario changes what runs."""

    def __init__(self, lane: int, weighed: Sequence[WeighedTime]) -> None:
        own = [(one, one.time.get(lane, Intervals.empty())) for one in weighed]
        borders = [borders for one, time in own if len(time) for borders in (time.start, time.end)]
        self._at_ns = np.unique(np.concatenate([np.zeros(1, np.int64), *borders]))
        self._rate = np.ones(len(self._at_ns))
        for one, time in own:
            inside = time.contains(self._at_ns) if len(time) else np.zeros(len(self._at_ns), bool)
            self._rate[~inside if one.outside else inside] *= one.factor
        lengths = np.diff(self._at_ns) * self._rate[:-1]
        self._passed = np.concatenate([np.zeros(1), np.cumsum(lengths)])

    def __call__(self, time_ns: I64) -> Floats:
        """Weighed time that has passed by then."""
        place = np.clip(np.searchsorted(self._at_ns, time_ns, side="right") - 1, 0, len(self._at_ns) - 1)
        passed: Floats = self._passed[place] + (time_ns - self._at_ns[place]) * self._rate[place]
        return passed


class EdgeChange(Table):
    """The delay of an edge becomes `kept_ns` and `factor` times the rest; GONE and SET stand for factors."""

    edge: I64 = column(np.int64)
    kept_ns: I64 = column(np.int64)
    factor: Column = column(np.float64)


GONE = -1.0  # the edge is gone
SET = -2.0  # the delay is `kept_ns`, whatever it was


@dataclass(frozen=True, kw_only=True)
class RankChanges:
    """What one scenario does to one rank."""

    steps: tuple[EdgeChange, ...]  # one after the other
    matched: tuple[int, ...]  # of each change of the scenario, how much on this rank it applies to
    like_others: bool = False
    late_start: float = 1.0  # what becomes of the time after which the rank begins later than the first
    why_not: str = ""  # why the trace of this rank does not tell what the scenario does


def joined_changes(changes: Sequence[RankChanges]) -> RankChanges:
    """What several scenarios do to a rank, one after the other."""
    return RankChanges(
        steps=tuple(step for of_one in changes for step in of_one.steps),
        matched=tuple(count for of_one in changes for count in of_one.matched),
        like_others=any(of_one.like_others for of_one in changes),
        why_not=next((of_one.why_not for of_one in changes if of_one.why_not), ""),
    )


def changes_on(timeline: Timeline, graph: RankGraph, scenarios: Sequence[Scenario]) -> tuple[RankChanges, ...]:
    finding = _Finding(timeline, graph)
    return tuple(finding.of_scenario(scenario) for scenario in scenarios)


def weighed_times(timeline: Timeline, graph: RankGraph, scenario: Scenario) -> tuple[WeighedTime, ...]:
    """Which times of the threads of a rank a scenario makes longer or shorter."""
    finding = _Finding(timeline, graph)
    return tuple(weighed for change in scenario.changes for weighed in finding.weighed(change))


class _Finding:
    """Which edges each kind of change is about."""

    def __init__(self, timeline: Timeline, graph: RankGraph) -> None:
        self.timeline, self.graph = timeline, graph
        self.kind, self.row = graph.edges.kind, graph.edges.row
        self.on_cpu = runs_on_cpu(timeline)

    def of_scenario(self, scenario: Scenario) -> RankChanges:
        steps: list[EdgeChange] = []
        matched: list[int] = []
        like_others, late_start = False, 1.0
        for change in scenario.changes:
            found = self._of_change(change)
            steps += found
            matched.append(sum(map(len, found)))
            if not isinstance(change, TimeChange) or not self._is_on(change):
                continue
            if change.like_others or change.target is Target.START:
                matched[-1] = 1
                like_others |= change.like_others
                late_start *= 1.0 if change.like_others else change.factor
        return RankChanges(
            steps=tuple(steps),
            matched=tuple(matched),
            like_others=like_others,
            late_start=late_start,
            why_not=self._why_not(scenario),
        )

    def _why_not(self, scenario: Scenario) -> str:
        asks = any(
            isinstance(change, TimeChange) and change.workers and self._is_on(change) for change in scenario.changes
        )
        return self._batches.why_unknown if asks and self._batches is not None else ""

    def _is_on(self, change: TimeChange) -> bool:
        return not change.ranks or self.graph.rank in change.ranks

    def _of_change(self, change: TimeChange | SpanChange) -> list[EdgeChange]:
        if isinstance(change, SpanChange):
            return self._of_spans(change) if change.rank == self.graph.rank else []
        if not self._is_on(change) or change.like_others or change.target is Target.START:
            return []
        return _FOUND_BY[change.target](self, change)

    def weighed(self, change: TimeChange | SpanChange) -> Iterator[WeighedTime]:
        if isinstance(change, SpanChange):
            if change.rank == self.graph.rank:
                yield WeighedTime(time=change.host, factor=0.0)
        elif not self._is_on(change) or change.like_others:
            return
        elif change.target is Target.KERNELS and self.on_cpu:
            yield WeighedTime(time=self._own_time(change.pattern), factor=change.factor)
        elif change.target is Target.LOADER:
            yield WeighedTime(time=self._loading, factor=0.0 if change.workers else change.factor)
        elif change.target is Target.HOST:
            own = self._own_time("") if self.on_cpu else {}
            yield WeighedTime(time=_joined(self._loading, own), factor=change.factor, outside=True)
        elif change.target is Target.OPERATOR:
            yield WeighedTime(time=self._time_of(self._operators(change.pattern)), factor=change.factor)

    # --- device ---

    def kernels(self, change: TimeChange) -> list[EdgeChange]:
        if self.on_cpu:
            return [self._host_part(self._own_time(change.pattern), change.factor)]
        return self._device(Kind.KERNEL, change)

    def copies(self, change: TimeChange) -> list[EdgeChange]:
        return [*self._device(Kind.COPY, change), *self._device(Kind.SET, change)]

    def collectives(self, change: TimeChange) -> list[EdgeChange]:
        return self._device(Kind.COMMUNICATION, change)

    def network(self, change: TimeChange) -> list[EdgeChange]:
        (found,) = self.collectives(change)
        rows = self.row[found.edge]
        spans = self.timeline.spans
        latency_ns = np.full(len(rows), NETWORK_LATENCY_NS)
        for _, here in grouped(spans.name[rows]):
            latency_ns[here] = min(NETWORK_LATENCY_NS, int(spans.dur_ns[rows[here]].min()))
        return [EdgeChange(edge=found.edge, kept_ns=latency_ns, factor=found.factor)]

    def _device(self, kind: Kind, change: TimeChange) -> list[EdgeChange]:
        rows = self.graph.work_row[self.timeline.spans.kind[self.graph.work_row] == kind]
        rows = rows[matching(self.timeline, rows, _meant_by(change.pattern))]
        return [self._of_work(rows, change.factor)]

    def _of_work(self, rows: I64, factor: float) -> EdgeChange:
        """Device work, with the time after which the next began while it still ran."""
        meant = np.zeros(len(self.timeline.spans) + 1, bool)
        meant[rows] = True
        meant[NONE] = False
        runs = np.isin(self.kind, (*_DEVICE_KINDS, EdgeKind.STREAM)) & meant[self.row]
        return _scaled(np.flatnonzero(runs), factor)

    def _without_launch(self, rows: I64) -> list[EdgeChange]:
        """Work that is not there any more needs no launch and leaves no gap on its stream."""
        starts = np.zeros(len(self.graph) + 1, bool)
        starts[self.graph.work_start[np.isin(self.graph.work_row, rows)]] = True
        to_them = starts[self.graph.edges.head]
        launches = np.flatnonzero(to_them & (self.kind == EdgeKind.LAUNCH))
        gaps = np.flatnonzero(to_them & (self.kind == EdgeKind.STREAM) & (self.row == NONE))
        return [_scaled(launches, GONE), _scaled(gaps, 0.0)]

    # --- host ---

    def host(self, change: TimeChange) -> list[EdgeChange]:
        """All of the threads' own time, but for what they load, and on a CPU compute."""
        edges = self._host_edges
        return [_kept(edges, self._not_host_ns, change.factor)]

    def loader(self, change: TimeChange) -> list[EdgeChange]:
        """With workers, what the thread does itself or waits is gone, and batches come one after the other."""
        if not change.workers:
            return [self._host_part(self._loading, change.factor)]
        apart = np.flatnonzero(self.kind == EdgeKind.LOADER)
        if self._batches is None or not self._batches.worker_ns or not len(apart):
            return []
        interval_ns = round(self._batches.worker_ns / change.workers)
        return [self._host_part(self._loading, 0.0), _kept(apart, np.full(len(apart), interval_ns), SET)]

    @cached_property
    def _batches(self) -> LoaderBatches | None:
        return loader_batches(self.timeline)

    def sync(self, change: TimeChange) -> list[EdgeChange]:
        waits = np.flatnonzero((self.kind == EdgeKind.WAIT) & (self.row != NONE))
        waits = waits[matching(self.timeline, self.row[waits], _meant_by(change.pattern))]
        return [_scaled(waits, change.factor or GONE)]

    def rank(self, change: TimeChange) -> list[EdgeChange]:
        own = np.flatnonzero(np.isin(self.kind, (*_HOST_KINDS, EdgeKind.DEVICE)))
        return [_scaled(own, change.factor)]

    @cached_property
    def _host_edges(self) -> I64:
        return np.flatnonzero(np.isin(self.kind, _HOST_KINDS))

    @cached_property
    def _not_host_ns(self) -> I64:
        """Of each host edge what the thread loads, and on a CPU computes."""
        not_host = self._part_ns(self._loading)
        if self.on_cpu:
            not_host += self._part_ns(self._own_time(""))
        return np.minimum(not_host, np.maximum(self.graph.edges.delay_ns[self._host_edges], 0))

    @cached_property
    def _loading(self) -> Mapping[int, Intervals]:
        return loader_time(self.timeline)

    def _host_part(self, time: Mapping[int, Intervals], factor: float) -> EdgeChange:
        """Host edges, with the part of each that does not lie in these times kept."""
        part_ns = self._part_ns(time)
        chosen = part_ns > 0
        edges = self._host_edges[chosen]
        return _kept(edges, self.graph.edges.delay_ns[edges] - part_ns[chosen], factor)

    def _part_ns(self, time: Mapping[int, Intervals]) -> I64:
        """How much of each host edge lies in these times of its thread."""
        edges, here = self.graph.edges, self._host_edges
        begin_ns = self.graph.time_ns[edges.tail[here]]
        part_ns = np.zeros(len(here), np.int64)
        for lane, places in grouped(edges.lane[here]):
            if lane in time:
                until_ns = begin_ns[places] + np.maximum(edges.delay_ns[here[places]], 0)
                part_ns[places] = time[lane].overlap_with(begin_ns[places], until_ns)
        return part_ns

    def _own_time(self, pattern: str) -> dict[int, Intervals]:
        """On a CPU: when operators of this name computed, by thread."""
        rows, start_ns, end_ns = own_time_of_operators(self.timeline)
        meant = matching(self.timeline, rows, _meant_by(pattern))
        lane = self.timeline.spans.lane[rows[meant]]
        return {
            number: Intervals.union_of(start_ns[meant][here], end_ns[meant][here]) for number, here in grouped(lane)
        }

    # --- operators and what rules have found ---

    def operator(self, change: TimeChange) -> list[EdgeChange]:
        spans = self.timeline.spans
        rows = self._operators(change.pattern)
        inside = np.zeros(len(spans), bool)
        inside[rows] = True
        work = self.timeline.device_work
        launched = work.row[nearest_of(inside, spans.parent, work.operator) != NONE].astype(np.int64)
        calls = self.graph.call_row[nearest_of(inside, spans.parent, self.graph.call_row) != NONE]
        parts = [self._of_work(launched, change.factor), self._host_part(self._time_of(rows), change.factor)]
        return parts if change.factor else [*parts, self._without_waits(calls), *self._without_launch(launched)]

    def _operators(self, pattern: str) -> I64:
        """Of this name; where there is none, of names that contain it."""
        operators = self.timeline.spans.rows_of(Kind.OPERATOR)
        exact = matching(self.timeline, operators, pattern.__eq__)
        return operators[exact if exact.any() else matching(self.timeline, operators, _contains(pattern))]

    def _time_of(self, rows: I64) -> dict[int, Intervals]:
        spans = self.timeline.spans
        return {
            lane: Intervals.union_of(spans.start_ns[rows[here]], spans.end_ns[rows[here]])
            for lane, here in grouped(spans.lane[rows])
        }

    def _of_spans(self, change: SpanChange) -> list[EdgeChange]:
        """What is saved of each piece of work; what is saved whole is not launched either."""
        dur_ns = self.timeline.spans.dur_ns
        left = np.ones(len(dur_ns) + 1)
        rows = change.device_rows
        left[rows] = np.clip(1 - change.saved_ns / np.maximum(dur_ns[rows], 1), 0, 1)
        work = self._of_work(rows, 0.0)
        shortened = replace(work, factor=left[self.row[work.edge]])
        return [
            shortened,
            self._host_part(change.host, 0.0),
            self._without_waits(change.waits),
            *self._without_launch(rows[left[rows] == 0]),
        ]

    def _without_waits(self, calls: I64) -> EdgeChange:
        return _scaled(np.flatnonzero((self.kind == EdgeKind.WAIT) & np.isin(self.row, calls)), GONE)


_FOUND_BY: Mapping[Target, Callable[[_Finding, TimeChange], list[EdgeChange]]] = {
    Target.KERNELS: _Finding.kernels,
    Target.COLLECTIVES: _Finding.collectives,
    Target.NETWORK: _Finding.network,
    Target.COPIES: _Finding.copies,
    Target.HOST: _Finding.host,
    Target.LOADER: _Finding.loader,
    Target.SYNC: _Finding.sync,
    Target.OPERATOR: _Finding.operator,
    Target.RANK: _Finding.rank,
}


def _joined(first: Mapping[int, Intervals], second: Mapping[int, Intervals]) -> dict[int, Intervals]:
    none = Intervals.empty()
    return {lane: first.get(lane, none) | second.get(lane, none) for lane in first.keys() | second.keys()}


def _meant_by(pattern: str) -> Callable[[str], bool]:
    """Names of a class of kernels, or that contain a text."""
    if not pattern:
        return lambda name: True
    if pattern in KERNEL_CLASSES:
        return lambda name: kernel_class(name) == pattern
    return _contains(pattern)


def _contains(pattern: str) -> Callable[[str], bool]:
    wanted = pattern.lower()
    return lambda name: wanted in name.lower()


def _scaled(edges: I64, factor: float) -> EdgeChange:
    return _kept(edges, np.zeros(len(edges), np.int64), factor)


def _kept(edges: I64, kept_ns: I64, factor: float) -> EdgeChange:
    return EdgeChange(edge=edges, kept_ns=kept_ns, factor=np.full(len(edges), factor))
