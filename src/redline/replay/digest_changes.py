"""What a scenario does to the graph of a digest, as far as a digest tells."""

from collections.abc import Sequence
from math import prod

import numpy as np

from redline.ledger.rank.digest import Digest
from redline.replay.changes import Change, Scenario, Target, TimeChange
from redline.replay.digest_graph import LINE, DigestGraph, Part
from redline.replay.edges import EdgeKind
from redline.replay.forecast import RankReplay
from redline.replay.what_changes import NETWORK_LATENCY_NS, EdgeChange, RankChanges
from redline.timeline.table import I64, grouped

_PART_OF = {Target.KERNELS: Part.COMPUTE, Target.HOST: Part.HOST, Target.LOADER: Part.INPUT}
_TRANSFERS = (Target.COLLECTIVES, Target.NETWORK)


def digest_replay(digest: Digest, graph: DigestGraph, scenarios: Sequence[Scenario]) -> RankReplay:
    """What `rank_replay` makes of a trace."""
    changing = _Changing(digest, graph)
    return RankReplay(graph=graph.graph, changes=tuple(map(changing.of_scenario, scenarios)))


class _Changing:
    """Which edges of a rank each kind of change is about."""

    def __init__(self, digest: Digest, graph: DigestGraph) -> None:
        self.digest, self.graph, self.edges = digest, graph, graph.graph.edges
        self.line = np.flatnonzero(self.edges.kind == LINE)
        self.pieces = graph.pieces.take(self.edges.row[self.line])

    def of_scenario(self, scenario: Scenario) -> RankChanges:
        here = [self._if_here(change) for change in scenario.changes]
        timed = [change for change in here if change is not None]
        transfers = [self._transfers(change) for change in timed if change.target in _TRANSFERS]
        return RankChanges(
            steps=(self._own(timed), self._hosts(timed), *transfers),
            matched=tuple(0 if change is None else self._matched(change) for change in here),
            like_others=any(change.like_others for change in timed),
            late_start=prod(change.factor for change in timed if change.target is Target.START),
            why_not=next((why for change in timed if (why := _why_not(change))), ""),
        )

    def _if_here(self, change: Change) -> TimeChange | None:
        """None for what is about other ranks, or about spans of a trace."""
        if not isinstance(change, TimeChange) or (change.ranks and self.graph.graph.rank not in change.ranks):
            return None
        return change

    def _matched(self, change: TimeChange) -> int:
        if change.target in _TRANSFERS:
            return len(self._transfers(change))
        if change.target is Target.KERNELS:
            return int(((self.pieces.part == Part.COMPUTE) | (self.pieces.between_ns > 0)).sum())
        if change.target in _PART_OF:
            return int((self.pieces.part == _PART_OF[change.target]).sum())
        return int(change.target in (Target.RANK, Target.START))

    def _own(self, changes: Sequence[TimeChange]) -> EdgeChange:
        """All changes of what a rank does itself, together. Where its host leads, a faster device waits longer, and a
        faster host lets the device compute without pause, but no faster."""
        factors, whole = dict.fromkeys(Part, 1.0), 1.0
        for change in changes:
            if change.target in _PART_OF:
                factors[_PART_OF[change.target]] *= change.factor
            elif change.target is Target.RANK:
                whole *= change.factor
        measured_ns = np.maximum(self.edges.delay_ns[self.line], 1)
        compute = factors[Part.COMPUTE] * self.pieces.between_ns / measured_ns
        ratio = np.array([factors[part] for part in Part])[self.pieces.part]
        ratio = whole * np.where(self.pieces.part == Part.HOST, np.maximum(ratio, compute), ratio)
        changed = ratio != 1
        none_ns = np.zeros(int(changed.sum()), np.int64)
        return EdgeChange(edge=self.line[changed], kept_ns=none_ns, factor=ratio[changed])

    def _hosts(self, changes: Sequence[TimeChange]) -> EdgeChange:
        """What whole steps take the host."""
        edges = np.flatnonzero(self.edges.kind == EdgeKind.RETURN)
        factor = prod(change.factor for change in changes if change.target in (Target.HOST, Target.RANK))
        return EdgeChange(edge=edges, kept_ns=np.zeros(len(edges), np.int64), factor=np.full(len(edges), factor))

    def _transfers(self, change: TimeChange) -> EdgeChange:
        transfers = np.flatnonzero(self.edges.kind == EdgeKind.TRANSFER)
        series = self.digest.exchanges.series[self.edges.row[transfers]]
        wanted = _plain(change.pattern)
        meant = np.array([wanted in _plain(name.collective) for name in self.digest.series] or [False], np.bool_)
        chosen = meant[series] if len(series) else np.zeros(0, np.bool_)
        edges = transfers[chosen]
        kept_ns = np.zeros(len(edges), np.int64)
        if change.target is Target.NETWORK:
            kept_ns = self._latency_ns(edges, series[chosen])
        return EdgeChange(edge=edges, kept_ns=kept_ns, factor=np.full(len(edges), change.factor))

    def _latency_ns(self, edges: I64, series: I64) -> I64:
        """At most as long as the shortest of its kind."""
        latency_ns = np.full(len(edges), NETWORK_LATENCY_NS)
        for _, here in grouped(series):
            shortest_ns = int(np.maximum(self.edges.delay_ns[edges[here]], 0).min())
            latency_ns[here] = min(NETWORK_LATENCY_NS, shortest_ns)
        return latency_ns


def _plain(name: str) -> str:
    """AllGather and all_gather are one."""
    return name.lower().replace("_", "")


def _why_not(change: TimeChange) -> str:
    """What digests do not tell."""
    if change.workers:
        return "digests do not say how long the workers of the data loader take"
    if change.pattern and change.target not in _TRANSFERS:
        return "digests hold no single kernels or operators: give the traces, or leave the name out"
    if change.target in (Target.COPIES, Target.SYNC, Target.OPERATOR):
        return f"digests do not tell what {change.target} changes: give the traces"
    return ""
