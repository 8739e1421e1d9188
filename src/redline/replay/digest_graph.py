"""A digest as a graph: what a rank did from exchange to exchange, and the exchanges. Coarser than that of a trace.

A rank goes along a line, with a point wherever a step or an exchange begins or ends. What it does between two points is
its own; where it stood still until an exchange ended, the line goes on after that. An exchange begins when the line has
come to it and the one before it in its group has ended. One that was hidden has to end before its step does.
"""

from collections.abc import Sequence
from enum import IntEnum
from math import prod

import numpy as np
import numpy.typing as npt

from redline.ledger.accounts import ACCOUNTS, COMMUNICATION, COMPUTE, Account
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.exchanges import NamedExchanges
from redline.ledger.rank.ledger import Amounts
from redline.replay.changes import Change, Scenario, Target, TimeChange
from redline.replay.edges import EdgeKind, EdgeList, Explained, with_residuals
from redline.replay.forecast import RankReplay
from redline.replay.rank_graph import ORIGIN, RankExchanges, RankGraph
from redline.replay.recorded_order import Latencies
from redline.replay.what_changes import NETWORK_LATENCY_NS, EdgeChange, RankChanges
from redline.timeline.table import I64, Column, Table, column, grouped
from redline.timeline.timeline import NONE
from redline.values import dataclass

_ACCOUNTS_OF = (COMPUTE, (Account.HOST, Account.SYNC), (Account.INPUT,), (*COMMUNICATION, Account.COPY))
LINE = EdgeKind.DEVICE  # the kind of the edges of the line
_US = 1000
Floats = npt.NDArray[np.float64]


class Part(IntEnum):
    """What a rank does between two points of its line, in this order, as far as a digest tells."""

    COMPUTE = 0
    HOST = 1  # the device waits for its host, with what it computes in between
    INPUT = 2
    OTHER = 3


_PART_OF = {Target.KERNELS: Part.COMPUTE, Target.HOST: Part.HOST, Target.LOADER: Part.INPUT}
_TRANSFERS = (Target.COLLECTIVES, Target.NETWORK)


class LinePieces(Table):
    """What the line is made of."""

    part: Column = column(np.uint8)
    between_ns: I64 = column(np.int64)  # of Part.HOST: how much of it the device computed


@dataclass(frozen=True, kw_only=True)
class DigestGraph:
    """The graph of a rank. The row of an edge of the line is a piece, that of a transfer an exchange."""

    graph: RankGraph
    pieces: LinePieces


def graph_of_digest(digest: Digest) -> DigestGraph:
    return _Building(digest).graph()


class _Building:
    """The line, and what hangs on it."""

    def __init__(self, digest: Digest) -> None:
        self.digest = digest
        self.start_ns = digest.exchanges.start_ns.astype(np.int64)
        self.end_ns = digest.exchanges.end_ns.astype(np.int64)
        ledger = digest.ledger
        self.line_ns = np.unique(
            np.concatenate([digest.window_ns[:1], ledger.start_ns, ledger.end_ns, self.start_ns, self.end_ns])
        )
        # What a recording tells of exchanges before its window has nothing to hang on.
        self.line_ns = self.line_ns[self.line_ns >= digest.window_ns[0]]
        self.spent_ns = np.diff(np.rint(_spent_ns(digest, self.line_ns)).astype(np.int64), axis=0)
        self.stands_ns = np.where(self._has_open(), self.spent_ns[:, -1], 0)
        self.own_ns = np.maximum(np.diff(self.line_ns) - self.stands_ns, 0)
        self.begins = np.searchsorted(self.line_ns, self.start_ns)  # points of the line
        self.ends = np.searchsorted(self.line_ns, self.end_ns)
        self.step_ends = np.searchsorted(self.line_ns, ledger.end_ns)
        self.time_ns = self._line_times()

    def _has_open(self) -> npt.NDArray[np.bool_]:
        """Of each stretch whether the rank was in an exchange."""
        at_ns = self.line_ns[:-1]
        begun = np.searchsorted(np.sort(self.start_ns), at_ns, side="right")
        over = np.searchsorted(np.sort(self.end_ns), at_ns, side="right")
        return np.asarray(begun > over, np.bool_)

    def _line_times(self) -> I64:
        """Where the line is at each point when it waits for nothing but what it stood still for. While it stands, it
        is behind the clock: what begins meanwhile does not begin because of it."""
        stood = np.zeros(len(self.line_ns), np.bool_)
        stood[self.ends[self._stood_for()]] = True
        stood[np.searchsorted(self.line_ns, self.digest.ledger.start_ns)] = True
        stood[self.step_ends] = True
        stood[ORIGIN] = True
        caught_up = np.flatnonzero(stood)
        since = caught_up[np.searchsorted(caught_up, np.arange(len(self.line_ns)), side="right") - 1]
        gone_ns = np.append(0, np.cumsum(self.own_ns))
        times_ns: I64 = self.line_ns[since] + gone_ns - gone_ns[since]
        return times_ns

    def _stood_for(self) -> I64:
        """Exchanges at whose end the rank had been standing still. One that took no time held nobody up."""
        before = np.maximum(self.ends - 1, 0)
        stands = np.append(self.stands_ns, 0)
        return np.flatnonzero((self.ends > self.begins) & (stands[before] > 0))

    def graph(self) -> DigestGraph:
        exchanges, count = self.digest.exchanges, len(self.start_ns)
        starts = len(self.line_ns) + np.arange(count)
        ends = starts + count
        edges = EdgeList()
        pieces, pieces_ns = self._add_line(edges, len(self.line_ns) + 2 * count)
        edges.add(EdgeKind.LAUNCH, self.begins, starts, 0)
        edges.add(EdgeKind.TRANSFER, starts, ends, self.end_ns - self.start_ns, row=np.arange(count))
        for _, here in grouped(self._groups()):
            ordered = here[np.argsort(self.start_ns[here], kind="stable")]
            after = np.flatnonzero(self.start_ns[ordered[1:]] >= self.end_ns[ordered[:-1]])
            edges.add(EdgeKind.STREAM, ends[ordered[after]], starts[ordered[after + 1]], 0)
        stood_for = self._stood_for()
        edges.add(EdgeKind.WAIT, ends[stood_for], self.ends[stood_for], 0)
        self._add_hidden(edges, ends)
        self._add_hosts(edges)
        found = edges.in_order_of_head()
        time_ns = np.concatenate([self.time_ns, self.start_ns, self.end_ns, pieces_ns])
        none = np.empty(0, np.int64)
        steps = np.searchsorted(self.line_ns, self.digest.ledger.start_ns), self.step_ends
        graph = RankGraph(
            rank=self.digest.origin.rank,
            zero_ns=self.digest.zero_ns,
            time_ns=time_ns,
            edges=with_residuals(found, time_ns),
            by_rule_ns=found.delay_ns,
            step_points=np.column_stack(steps),
            work_row=np.arange(count),
            work_start=starts,
            work_end=ends,
            **dict.fromkeys(("call_row", "call_start", "call_end", "mark_point", "mark_lane"), none),
            exchanges=RankExchanges(
                start=starts,
                end=ends,
                named=NamedExchanges(series=exchanges.series, sequence=exchanges.sequence, names=self.digest.series),
            ),
            latencies=Latencies(launch_ns=0, gap_ns=0),
            explained=Explained(starts=count, unexplained=0, unexplained_ns=0),
        )
        return DigestGraph(graph=graph, pieces=pieces)

    def _add_line(self, edges: EdgeList, first: int) -> tuple[LinePieces, I64]:
        """The pieces of each stretch one after the other, and when all but the last of each end: those are points of
        their own, from `first` on. What the parts leave of a stretch is the last."""
        amounts_ns, between_ns = self._amounts()
        stretch, part = np.nonzero(amounts_ns)
        stretches = np.arange(len(amounts_ns))
        number = first + np.arange(len(stretch))
        begins = np.append(True, stretch[1:] != stretch[:-1])[: len(stretch)]
        edges.add(
            LINE,
            np.where(begins, stretch, number - 1),
            number,
            amounts_ns[stretch, part],
            row=np.arange(len(stretch)),
        )
        last = np.searchsorted(stretch, stretches, side="right") - 1
        has_any = np.append(stretch, NONE)[last] == stretches
        left_ns = self.own_ns - amounts_ns.sum(axis=1)
        edges.add(
            LINE,
            np.where(has_any, first + last, stretches),
            stretches + 1,
            left_ns,
            row=len(stretch) + stretches,
        )
        pieces = LinePieces(
            part=np.append(part, np.full(len(stretches), Part.OTHER)).astype(np.uint8),
            between_ns=np.append(np.where(part == Part.HOST, between_ns[stretch], 0), 0 * stretches),
        )
        ends_ns = self.time_ns[stretch] + np.cumsum(amounts_ns, axis=1)[stretch, part]
        return pieces, ends_ns

    def _amounts(self) -> tuple[I64, I64]:
        """[stretch, part], and what each computes while its host leads: as much as the device waits for it, on a GPU.
        Rounded figures may add up to more than there is."""
        compute_ns, host_ns, input_ns, _ = self.spent_ns.T
        on_gpu = self.digest.facts.device == "gpu"
        between_ns = np.minimum(compute_ns, host_ns) if on_gpu else 0 * host_ns
        wanted_ns = np.column_stack([compute_ns - between_ns, host_ns + between_ns, input_ns])
        until_ns = np.minimum(np.cumsum(wanted_ns, axis=1), self.own_ns[:, None])
        amounts_ns: I64 = np.diff(until_ns, axis=1, prepend=0)
        return amounts_ns, np.minimum(between_ns, amounts_ns[:, Part.HOST])

    def _groups(self) -> I64:
        """Of each exchange the group that it is in: those of a group run one after the other."""
        names = [series.group for series in self.digest.series]
        number = {name: at for at, name in enumerate(dict.fromkeys(names))}
        return np.array([number[name] for name in names] or [NONE], np.int64)[self.digest.exchanges.series]

    def _add_hidden(self, edges: EdgeList, ends: I64) -> None:
        """Each exchange to the end of the step that it ends in."""
        step = np.searchsorted(self.digest.ledger.end_ns, self.end_ns)
        inside = np.flatnonzero((step < len(self.step_ends)) & (self.ends > self.begins))
        edges.add(EdgeKind.WAIT, ends[inside], self.step_ends[step[inside]], 0)

    def _add_hosts(self, edges: EdgeList) -> None:
        """What a step takes the host, however fast the device is."""
        host_ns = np.array(self.digest.step_host_ns, np.int64)
        if len(host_ns) == len(self.step_ends):
            begins = np.searchsorted(self.line_ns, self.digest.ledger.start_ns)
            edges.add(EdgeKind.RETURN, begins, self.step_ends, host_ns)


# --- what was spent ---------------------------------------------------------------------------------------------------


def _spent_ns(digest: Digest, at_ns: I64) -> Floats:
    """[time, part and exposed communication] since the window began; even between times at which it is known."""
    known_ns, known = _known(digest) if len(digest.exchanges) else _known_of_steps(digest)
    return np.column_stack([np.interp(at_ns, known_ns, column) for column in known.T])


def _known(digest: Digest) -> tuple[I64, Floats]:
    """At beginnings and ends of exchanges, and of the window."""
    exchanges, spent = digest.exchanges, digest.spent.unpacked()
    names = ("compute", "host", "input", "communication")
    at = [np.column_stack([getattr(spent, f"{name}_at_{edge}_us") for name in names]) for edge in ("start", "end")]
    begin_ns, until_ns = digest.window_ns
    total = np.maximum(_of_accounts(digest.ledger.total), np.vstack(at).max(axis=0) * _US)
    times_ns = np.concatenate([[begin_ns], exchanges.start_ns, exchanges.end_ns, [until_ns]])
    order = np.argsort(times_ns, kind="stable")
    columns = np.vstack([np.zeros(len(names)), *(rows * float(_US) for rows in at), total])
    return times_ns[order], np.maximum.accumulate(columns[order], axis=0)


def _known_of_steps(digest: Digest) -> tuple[I64, Floats]:
    """At borders of steps, from the ledger; what lies outside of steps is even over that time."""
    ledger, (begin_ns, until_ns) = digest.ledger, digest.window_ns
    borders_ns = np.concatenate([[begin_ns], np.column_stack([ledger.start_ns, ledger.end_ns]).ravel(), [until_ns]])
    gaps_ns = np.diff(borders_ns)[::2].astype(np.float64)
    outside = np.outer(gaps_ns / max(gaps_ns.sum(), 1.0), _of_accounts(ledger.outside))
    pieces = np.zeros((len(borders_ns) - 1, outside.shape[1]))
    pieces[::2] = outside
    pieces[1::2] = np.array([_of_accounts(step) for step in ledger.steps]).reshape(-1, outside.shape[1])
    return borders_ns, np.vstack([np.zeros(outside.shape[1]), np.cumsum(pieces, axis=0)])


def _of_accounts(amounts: Amounts) -> Floats:
    """Sums of the accounts of each part, and of exposed communication."""
    return np.array([sum(int(amounts[ACCOUNTS.index(each)]) for each in group) for group in _ACCOUNTS_OF], np.float64)


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
