"""How long the steps of a job take in each scenario, all of them replayed at once."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from redline.ledger.rank.exchanges import POINT_TO_POINT, CollectiveSeries
from redline.replay.changes import Scenario, SpanChange, TimeChange
from redline.replay.edges import EdgeKind
from redline.replay.job_graph import JobGraph, job_graph_of
from redline.replay.rank_graph import RankGraph, graph_of
from redline.replay.replay import GONE_NS, ReplayPlan, plan_of, replayed, scenarios_at_once
from redline.replay.what_changes import GONE, SET, RankChanges, changes_on, joined_changes
from redline.timeline.table import I64, Column
from redline.timeline.timeline import Timeline
from redline.values import dataclass

Floats = npt.NDArray[np.float64]
MOST_ERROR = 0.1  # of the steps when replayed by rules alone; beyond it the graph does not explain them
MOST_UNEXPLAINED = 0.1  # share of device starts that nothing explains
_OWN_KINDS = (EdgeKind.HOST, EdgeKind.RETURN, EdgeKind.DEVICE)
_Floats = npt.NDArray[np.float64]
_ExchangeKinds = frozenset[tuple[str, tuple[int, ...]]]


@dataclass(frozen=True, kw_only=True)
class RankReplay:
    """What the replay of a job needs of one rank. Made where the trace is open, and small."""

    graph: RankGraph
    changes: tuple[RankChanges, ...]  # of each scenario


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The steps of a job in a scenario. Where it is declined, the times are those that were measured."""

    scenario: Scenario
    step_ns: I64  # of each step: from the first rank's beginning to the last rank's end
    total_ns: int  # of all steps, from the beginning of the first to the end of the last
    measured_step_ns: I64
    measured_total_ns: int
    matched: int  # how many pieces of work, waits and stretches of the host the changes apply to
    declined: str = ""  # why there is none

    @property
    def gain_ns(self) -> int:
        return self.measured_total_ns - self.total_ns

    @property
    def gain_share(self) -> float:
        """Of the time of all steps; negative where the scenario is slower."""
        return self.gain_ns / max(self.measured_total_ns, 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class ScenarioReplay:
    """A scenario that was replayed. Where it is declined, everything is as it was measured."""

    forecast: Forecast
    times_ns: I64  # of each point of the job
    delays_ns: I64  # of each edge


def rank_replay(timeline: Timeline, scenarios: Sequence[Scenario] = ()) -> RankReplay:
    graph = graph_of(timeline)
    return RankReplay(graph=graph, changes=changes_on(timeline, graph, scenarios))


class JobReplay:
    """The ranks of a job, joined, with what each scenario changes."""

    def __init__(self, ranks: Sequence[RankReplay], scenarios: Sequence[Scenario]) -> None:
        self._ranks, self.scenarios = ranks, tuple(scenarios)
        self.job: JobGraph = job_graph_of([rank.graph for rank in ranks])

    @cached_property
    def plan(self) -> ReplayPlan:
        return plan_of(self.job.edges, len(self.job))

    @cached_property
    def error_by_rules(self) -> float:
        """How far off the steps are when replayed by the rules of the trace alone, as a share of them."""
        times_ns = replayed(self.job.edges, self.plan, self.job.by_rule_ns[:, None], 0)[:, 0]
        (_, total_ns), (_, measured_ns) = self._steps_ns(times_ns), self._measured_ns
        return (total_ns - measured_ns) / max(measured_ns, 1)

    @cached_property
    def declined(self) -> str:
        """Why no scenario of this job is replayed, or nothing."""
        starts = sum(rank.graph.explained.starts for rank in self._ranks)
        unexplained = sum(rank.graph.explained.unexplained for rank in self._ranks)
        if unexplained > MOST_UNEXPLAINED * starts:
            return (
                f"{unexplained:,} of {starts:,} pieces of device work began when nothing that the trace records "
                "explains it"
            )
        if abs(self.error_by_rules) > MOST_ERROR:
            return (
                "the recorded dependencies do not explain the steps: replayed by them alone, these take "
                f"{1 + self.error_by_rules:.0%} of their time"
            )
        return ""

    def forecasts(self) -> tuple[Forecast, ...]:
        return tuple(replay.forecast for replay in self.each())

    def each(self) -> Iterator[ScenarioReplay]:
        """Every scenario in turn, each replayed once. As many as are replayed side by side are held at a time."""
        at_once = scenarios_at_once(self.job.edges)
        changes = [[rank.changes[number] for rank in self._ranks] for number in range(len(self.scenarios))]
        for first in range(0, len(self.scenarios), at_once):
            some = slice(first, first + at_once)
            yield from self._side_by_side(self.scenarios[some], changes[some])

    def together(self, scenario: Scenario, numbers: Sequence[int]) -> ScenarioReplay:
        """One that makes the changes of several of the scenarios, in the same graph."""
        changes = [joined_changes([rank.changes[number] for number in numbers]) for rank in self._ranks]
        (replay,) = self._side_by_side([scenario], [changes])
        return replay

    def times_ns(self, scenario: int) -> I64:
        """When each point of the job comes in a scenario, even if no forecast is made of it."""
        delays_ns = self._delays_ns([rank.changes[scenario] for rank in self._ranks])
        return replayed(self.job.edges, self.plan, delays_ns[:, None], 0)[:, 0]

    def _side_by_side(
        self, scenarios: Sequence[Scenario], changes: Sequence[Sequence[RankChanges]]
    ) -> Iterator[ScenarioReplay]:
        """Of each scenario its changes on every rank."""
        pairs = list(zip(scenarios, changes, strict=True))
        refused = [self.declined or self._nothing_to_change(*pair) for pair in pairs]
        edges = self.job.edges
        replayed_ones = [of_ranks for of_ranks, why in zip(changes, refused, strict=True) if not why]
        delays_ns = np.empty((len(edges), len(replayed_ones)), np.int64)
        for place, of_ranks in enumerate(replayed_ones):
            delays_ns[:, place] = self._delays_ns(of_ranks)
        times_ns = replayed(edges, self.plan, delays_ns, 0) if replayed_ones else delays_ns
        # Each as numbers that lie beside each other: whoever follows a path through them reads one here, one there.
        columns = zip(map(np.ascontiguousarray, times_ns.T), map(np.ascontiguousarray, delays_ns.T), strict=True)
        for (scenario, of_ranks), why in zip(pairs, refused, strict=True):
            of_times_ns, of_delays_ns = (self.job.time_ns, edges.delay_ns) if why else next(columns)
            yield self._scenario_replay(scenario, of_ranks, of_times_ns, of_delays_ns, why)

    def _scenario_replay(
        self, scenario: Scenario, changes: Sequence[RankChanges], times_ns: I64, delays_ns: I64, declined: str = ""
    ) -> ScenarioReplay:
        step_ns, total_ns = self._steps_ns(times_ns)
        measured_step_ns, measured_total_ns = self._measured_ns
        forecast = Forecast(
            scenario=scenario,
            step_ns=step_ns,
            total_ns=total_ns,
            measured_step_ns=measured_step_ns,
            measured_total_ns=measured_total_ns,
            matched=sum(sum(of_rank.matched) for of_rank in changes),
            declined=declined,
        )
        return ScenarioReplay(forecast=forecast, times_ns=times_ns, delays_ns=delays_ns)

    def _nothing_to_change(self, scenario: Scenario, changes: Sequence[RankChanges]) -> str:
        """Why a scenario cannot be told: which of its changes applies to nothing, or ""."""
        why_not = next((of_rank.why_not for of_rank in changes if of_rank.why_not), "")
        if why_not:
            return why_not
        for place, change in enumerate(scenario.changes):
            if not any(of_rank.matched[place] for of_rank in changes):
                return f"nothing in the trace is changed by {_named(change)}"
            if isinstance(change, TimeChange) and change.like_others and len(changes) < 2:
                return "there are no other ranks, of which the median could be taken"
        for rank in ranks_like_no_other(self.job, _alike(changes)):
            return f"rank {rank} has exchanges that no other rank has, so there is none that it could be like"
        return ""

    # --- delays ---

    def _delays_ns(self, changes: Sequence[RankChanges]) -> I64:
        """Of each edge with these changes on each rank."""
        measured_ns = self.job.edges.delay_ns
        delays_ns = measured_ns.astype(np.float64)
        alike = _alike(changes)
        if alike:
            delays_ns = delays_like_others(self.job, alike)
        delays_ns[self.job.begin_edge] *= np.array([of_rank.late_start for of_rank in changes])
        for of_rank, places in zip(changes, self.job.place_of_edge, strict=True):
            for change in of_rank.steps:
                edges = places[change.edge]
                kept_ns = np.minimum(change.kept_ns, np.maximum(measured_ns[edges], 0))
                ratio = _ratio(measured_ns[edges], kept_ns, change.factor)
                scaled_ns = np.where(change.factor == SET, change.kept_ns, delays_ns[edges] * ratio)
                delays_ns[edges] = np.where(change.factor == GONE, GONE_NS, scaled_ns)
        self._share_transfers(delays_ns)
        return np.where(delays_ns <= GONE_NS / 2, GONE_NS, np.rint(delays_ns)).astype(np.int64)

    def _share_transfers(self, delays_ns: Floats) -> None:
        """What changes a rank's own time in an exchange changes the transfer after the last has come as well."""
        own, shared = self._transfers
        if not len(shared):
            return
        heads = self.job.edges.head
        ratio = np.ones(len(self.job))
        measured_ns = np.maximum(self.job.edges.delay_ns[own], 1)
        ratio[heads[own]] = np.clip(delays_ns[own], 0, None) / measured_ns
        delays_ns[shared] *= ratio[heads[shared]]

    @cached_property
    def _transfers(self) -> tuple[I64, I64]:
        """Edges of a rank's own time in an exchange, and those from when the last rank had come."""
        edges = self.job.edges
        transfers = np.flatnonzero(edges.kind == EdgeKind.TRANSFER)
        is_own = edges.tail[transfers] < int(self.job.first_point[-1])
        return transfers[is_own], transfers[~is_own]

    # --- steps ---

    @cached_property
    def _measured_ns(self) -> tuple[I64, int]:
        return self._steps_ns(self.job.time_ns)

    def _steps_ns(self, times_ns: I64) -> tuple[I64, int]:
        """How long each step takes, and all of them."""
        starts, ends, _ = self.borders(times_ns)
        return ends - starts, int(ends.max() - starts.min()) if len(starts) else 0

    def borders(self, times_ns: I64) -> tuple[I64, I64, I64]:
        """Of each step that all ranks have: when the first rank begins it, when the last ends it, and that point."""
        points = self._step_points
        ends_ns = times_ns[points[:, :, 1]]
        last = points[ends_ns.argmax(axis=0), np.arange(points.shape[1]), 1]
        return times_ns[points[:, :, 0]].min(axis=0), ends_ns.max(axis=0), last

    @cached_property
    def _step_points(self) -> I64:
        """[rank, step, 2], of the steps that all ranks have."""
        steps = self.job.step_points()
        number = min(map(len, steps))
        return np.stack([of_rank[:number] for of_rank in steps])


def _alike(changes: Sequence[RankChanges]) -> list[int]:
    return [index for index, of_rank in enumerate(changes) if of_rank.like_others]


def _ratio(measured_ns: I64, kept_ns: I64, factor: Column) -> Floats:
    """What becomes of delays of which a part is kept."""
    measured = np.maximum(measured_ns, 1).astype(np.float64)
    return np.where(measured_ns > 0, (kept_ns + (measured - kept_ns) * factor) / measured, 1.0)


def _named(change: TimeChange | SpanChange) -> str:
    if isinstance(change, SpanChange):
        return f"what was found on rank {change.rank}"
    if change.workers:
        return f"{change.target} workers"
    return f"{change.target}({change.pattern})" if change.pattern else str(change.target)


def delays_like_others(job: JobGraph, alike: Sequence[int]) -> _Floats:
    """Delays with which these ranks do their work in the time in which the median of the other ranks does it.

    Work is told by the order in which the host launched it: a slow device or a slow host changes when work runs, not
    that order. Ranks that launch as many pieces between the same exchanges run the same program and are compared piece
    by piece. A rank that has no such other is compared with those with exchanges of the same kinds, between two
    exchanges as a whole. Another stage of a pipeline is not like it at all. All ranks at once become like their own
    median.
    """
    delays_ns = job.edges.delay_ns.astype(np.float64)
    begins_ns = job.edges.delay_ns[job.begin_edge]
    at_ns = _launched_ns(job)
    orders = [_launch_order(job, index, at_ns) for index in range(len(job.graphs))]
    for group in _by_program([orders[index] for index in alike]):
        comparable = [orders[index] for index in _others(job, alike, group[0].index)]
        same = [order for order in comparable if order.program == group[0].program]
        models = same or comparable
        stretches = _Stretches(job=job, at_ns=at_ns, by_piece=bool(same))
        for kind in _OWN_KINDS:
            number = stretches.number((*group, *models))
            usual_ns = np.median([stretches.spent(order, kind, number).spent_ns for order in models], axis=0)
            for order in group:
                own = stretches.spent(order, kind, number)
                delays_ns[own.edges] *= own.ratio_to(usual_ns)
        usual_begin_ns = np.median(begins_ns[[order.index for order in models]])
        delays_ns[job.begin_edge[[order.index for order in group]]] = usual_begin_ns
    return delays_ns


def ranks_like_no_other(job: JobGraph, alike: Sequence[int]) -> list[int]:
    """Those of these ranks that no other has the same kinds of exchanges as."""
    return [job.graphs[index].rank for index in alike if not _others(job, alike, index)]


def _others(job: JobGraph, alike: Sequence[int], index: int) -> list[int]:
    """Ranks that one can be like: of all those that are to be like the others, where these are all ranks."""
    every = range(len(job.graphs))
    others = [other for other in every if other not in set(alike)] or every
    wanted = _exchange_kinds(job.graphs[index])
    return [other for other in others if _exchange_kinds(job.graphs[other]) == wanted]


def _exchange_kinds(graph: RankGraph) -> _ExchangeKinds:
    """What it does with other ranks; of a send or receive also whether with a rank above or below it."""
    return frozenset((series.collective, _sides(series, graph.rank)) for series in graph.exchanges.named.names)


def _sides(series: CollectiveSeries, rank: int) -> tuple[int, ...]:
    if series.collective != POINT_TO_POINT:
        return ()
    source, destination = series.ranks
    return int(np.sign(source - rank)), int(np.sign(destination - rank))


@dataclass(frozen=True, kw_only=True)
class _LaunchOrder:
    """When a rank launched its work, in that order."""

    index: int
    exchange_kinds: _ExchangeKinds
    pieces_ns: I64
    exchanges_ns: I64

    @property
    def program(self) -> tuple[_ExchangeKinds, bytes, int]:
        """The same for ranks that launch as many pieces of work between the same exchanges."""
        return self.exchange_kinds, np.searchsorted(self.pieces_ns, self.exchanges_ns).tobytes(), len(self.pieces_ns)


def _launched_ns(job: JobGraph) -> I64:
    """Of each point of work when it was launched; of others, and of work that nothing launched, when it came."""
    at_ns = job.time_ns.copy()
    launches = np.flatnonzero(job.edges.kind == EdgeKind.LAUNCH)
    at_ns[job.edges.head[launches]] = job.time_ns[job.edges.tail[launches]]
    return at_ns


def _launch_order(job: JobGraph, index: int, at_ns: I64) -> _LaunchOrder:
    graph, first = job.graphs[index], int(job.first_point[index])
    return _LaunchOrder(
        index=index,
        exchange_kinds=_exchange_kinds(graph),
        pieces_ns=np.sort(at_ns[graph.work_start + first]),
        exchanges_ns=np.sort(at_ns[graph.exchanges.start + first]),
    )


def _by_program(orders: Sequence[_LaunchOrder]) -> list[list[_LaunchOrder]]:
    groups: dict[tuple[_ExchangeKinds, bytes, int], list[_LaunchOrder]] = {}
    for order in orders:
        groups.setdefault(order.program, []).append(order)
    return list(groups.values())


@dataclass(frozen=True, kw_only=True)
class _Spent:
    """A rank's edges of one kind, in which stretch each lies, and how long those of each stretch take."""

    edges: I64
    stretch: I64
    spent_ns: I64

    def ratio_to(self, usual_ns: _Floats) -> _Floats:
        """Of each edge: what its delay is to be multiplied by."""
        return np.where(self.spent_ns > 0, usual_ns / np.maximum(self.spent_ns, 1), 1.0)[self.stretch]


@dataclass(frozen=True, kw_only=True)
class _Stretches:
    """Ranks' time cut where pieces of work were launched, or only exchanges."""

    job: JobGraph
    at_ns: I64
    by_piece: bool

    def number(self, orders: Iterable[_LaunchOrder]) -> int:
        return min(len(self._borders_ns(order)) for order in orders) + 1

    def spent(self, order: _LaunchOrder, kind: EdgeKind, number: int) -> _Spent:
        edges = self.job.place_of_edge[order.index]
        edges = edges[self.job.edges.kind[edges] == kind]
        points = self.job.edges.tail if kind == EdgeKind.DEVICE else self.job.edges.head  # work lies where it begins
        after = np.searchsorted(self._borders_ns(order), self.at_ns[points[edges]], side="right")
        stretch = np.minimum(after, number - 1)
        spent_ns = np.zeros(number, np.int64)
        np.add.at(spent_ns, stretch, self.job.edges.delay_ns[edges])
        return _Spent(edges=edges, stretch=stretch, spent_ns=spent_ns)

    def _borders_ns(self, order: _LaunchOrder) -> I64:
        return order.pieces_ns if self.by_piece else order.exchanges_ns
