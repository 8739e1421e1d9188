"""Delays with which a rank does its work in the time in which the median of the other ranks does it.

Work is told by the order in which the host launched it: a slow device or a slow host changes when work runs, not that
order. Ranks that launch as many pieces between the same exchanges run the same program and are held against each other
piece by piece. A rank that has no such other is held against those with exchanges of the same kinds, between two
exchanges as a whole. Another stage of a pipeline is not like it at all.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from redline.ledger.rank.exchanges import POINT_TO_POINT, CollectiveSeries
from redline.replay.edges import EdgeKind
from redline.replay.job_graph import JobGraph
from redline.replay.rank_graph import RankGraph
from redline.timeline.table import I64

_OWN_KINDS = (EdgeKind.HOST, EdgeKind.RETURN, EdgeKind.DEVICE)
_Floats = npt.NDArray[np.float64]
_ExchangeKinds = frozenset[tuple[str, tuple[int, ...]]]


def delays_like_others(job: JobGraph, alike: Sequence[int]) -> _Floats:
    """These ranks like the others, which are the model for all of them; all of them like their own median."""
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
