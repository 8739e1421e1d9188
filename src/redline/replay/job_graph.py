"""The graphs of a job's ranks as one: nobody leaves an exchange before the last has come to it.

rank 0   [==== all-reduce ====]           The exchange begins when rank 1 has come. What all were in it from then
rank 1             [== .. ====]           on is its transfer; what rank 0 was in it before is waiting.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from redline.job.collectives import RankArrivals, rows_by_rank
from redline.job.matched_collectives import MatchedCollectives, match_collectives
from redline.ledger.job.collective_table import ONE_WAY, rank_arrivals
from redline.replay.edges import FAR_NS, EdgeKind, EdgeList, Edges, joined_edges, with_residuals
from redline.replay.rank_graph import ORIGIN, RankGraph
from redline.timeline.table import I64
from redline.values import dataclass


@dataclass(frozen=True, kw_only=True)
class JobGraph:
    """Points and edges of all ranks on one clock; point 0 is where the first rank begins."""

    graphs: tuple[RankGraph, ...]
    first_point: I64  # of each rank, and the number of points that are of ranks
    time_ns: I64
    edges: Edges  # in order of head, with exact delays
    by_rule_ns: I64
    place_of_edge: tuple[I64, ...]  # of each rank: where its edges are
    begin_edge: I64  # of each rank: the edge that has it begin when it did
    zero_ns: int  # Unix time of 0, on the common clock
    shift_ns: I64  # of each rank: what to add to its times
    exchanges: int  # that were matched between ranks
    unmatched: int  # exchanges of ranks that no other rank's was found for

    def __len__(self) -> int:
        return len(self.time_ns)

    def rank_of_point(self) -> I64:
        """Index of the rank of each point; that of none is the number of ranks."""
        return np.append(0, np.searchsorted(self.first_point, np.arange(1, len(self)), side="right") - 1)

    def step_points(self) -> list[I64]:
        """Of each rank [step, 2]."""
        return [graph.step_points + first for graph, first in zip(self.graphs, self.first_point.tolist(), strict=False)]


def job_graph_of(graphs: Sequence[RankGraph]) -> JobGraph:
    """One rank or many, in order of rank."""
    shared = match_collectives([_arrivals(index, graph) for index, graph in enumerate(graphs)], ONE_WAY)
    own_clock_ns = np.array([graph.zero_ns for graph in graphs], np.int64) - np.array(shared.clocks.offset_ns, np.int64)
    begins_ns = own_clock_ns + [int(graph.time_ns[ORIGIN]) for graph in graphs]
    shift_ns = own_clock_ns - int(begins_ns.min())
    first_point = 1 + np.append(0, np.cumsum([len(graph) for graph in graphs]))
    moved = [graph.time_ns + shift for graph, shift in zip(graphs, shift_ns.tolist(), strict=True)]
    meetings = _Meetings(graphs, shared, first_point, np.concatenate([np.zeros(1, np.int64), *moved]))
    begins = EdgeList()
    begins.add(EdgeKind.PIN, ORIGIN, first_point[:-1], begins_ns - begins_ns.min())
    own = [_moved(graph, int(first)) for graph, first in zip(graphs, first_point, strict=False)]
    together = joined_edges([edges for edges, _ in own] + [begins.as_found(), meetings.edges.as_found()])
    by_rule_ns = together.delay_ns.copy()
    by_rule_ns[: sum(map(len, (rule for _, rule in own)))] = np.concatenate([rule for _, rule in own])
    order = np.argsort(together.head, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    edges = meetings.without_waiting(together.take(order))
    by_rule_ns = np.where(
        edges.kind == EdgeKind.TRANSFER, np.minimum(by_rule_ns[order], edges.delay_ns), by_rule_ns[order]
    )
    borders = np.append(0, np.cumsum([len(graph.edges) for graph in graphs]))
    return JobGraph(
        graphs=tuple(graphs),
        first_point=first_point,
        time_ns=meetings.time_ns,
        edges=with_residuals(edges, meetings.time_ns),
        by_rule_ns=by_rule_ns,
        place_of_edge=tuple(place[low:high] for low, high in pairwise(borders.tolist())),
        begin_edge=place[borders[-1] + np.arange(len(graphs))],
        zero_ns=int(begins_ns.min()),
        shift_ns=shift_ns,
        exchanges=len(shared.first),
        unmatched=sum(len(graph.exchanges.start) for graph in graphs) - len(shared.rank),
    )


def _arrivals(index: int, graph: RankGraph) -> RankArrivals:
    exchanges = graph.exchanges
    times_ns = graph.time_ns[exchanges.start], graph.time_ns[exchanges.end]
    return rank_arrivals(index, exchanges.named, times_ns, graph.zero_ns)


def _moved(graph: RankGraph, first: int) -> tuple[Edges, I64]:
    edges = graph.edges
    moved = replace(edges, tail=edges.tail + np.int32(first), head=edges.head + np.int32(first))
    return moved, graph.by_rule_ns


class _Meetings:
    """A point for each exchange, when the last rank has come to it, and edges to and from it."""

    def __init__(self, graphs: Sequence[RankGraph], shared: MatchedCollectives, first_point: I64, time_ns: I64) -> None:
        self.edges = EdgeList()
        start, end = np.empty(len(shared.rank), np.int64), np.empty(len(shared.rank), np.int64)
        for rank, rows in enumerate(rows_by_rank(shared.rank, len(graphs))):
            place = shared.place[rows]
            start[rows] = graphs[rank].exchanges.start[place] + first_point[rank]
            end[rows] = graphs[rank].exchanges.end[place] + first_point[rank]
        if not len(shared.first):
            self.time_ns, self._end, self._shortest_ns = time_ns, end, end
            return
        came_ns = np.maximum.reduceat(time_ns[start], shared.first)
        meeting = len(time_ns) + np.arange(len(came_ns))
        self.edges.add(EdgeKind.ARRIVAL, start, meeting[shared.operation], 0)
        transfer_ns = time_ns[end] - came_ns[shared.operation]
        # A sender that did not wait for its receiver left before that had come.
        waited = shared.together | (transfer_ns >= 0)
        usual_ns = np.maximum(np.minimum.reduceat(np.where(waited, transfer_ns, FAR_NS), shared.first), 0)
        here = shared.operation[waited]
        self.edges.add(EdgeKind.TRANSFER, meeting[here], end[waited], usual_ns[here])
        self.time_ns = np.concatenate([time_ns, came_ns])
        self._end, self._shortest_ns = end[waited], shared.shortest_ns[here]

    def without_waiting(self, edges: Edges) -> Edges:
        """A rank's own time in an exchange without what it waited for others: that of the rank that came last."""
        shortest_ns = np.full(len(self.time_ns), FAR_NS)
        shortest_ns[self._end] = self._shortest_ns
        is_own = edges.kind == EdgeKind.TRANSFER
        limit_ns = np.where(is_own, shortest_ns[edges.head], FAR_NS)
        return replace(edges, delay_ns=np.minimum(edges.delay_ns, limit_ns))
