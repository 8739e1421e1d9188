"""Exchanges of all ranks put together: who arrived when, on one clock, and how long the others waited."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise

import numpy as np
import numpy.typing as npt

from redline.analysis.rank.digest import Digest
from redline.analysis.rank.exchanges import POINT_TO_POINT
from redline.timeline.intervals import Intervals
from redline.timeline.table import I32, I64, Column, narrowed
from redline.trace.clocks import Clocks, align
from redline.trace.collectives import Arrivals, Matched, RankArrivals, matched
from redline.trace.schema import ENDS_TOGETHER

Mask = npt.NDArray[np.bool_]
_RANKS_AT_ONCE = 512
_WITHOUT_PARTNERS = frozenset({"send", "receive", "send_receive", "unknown"})  # with whom is not known


@dataclass(frozen=True, kw_only=True)
class Meetings:
    """One row per rank and operation that at least two ranks took part in; rows of an operation are neighbours."""

    rank: I32  # index of the digest
    place: I32  # row of its exchanges
    operation: I32  # 0, 1, 2, ... without gaps
    first: I64  # the first row of each operation
    shift_ns: I64  # how far its rank's own clock is ahead of the clock of its operation
    start_ns: I64  # on the clock of its operation, as is end_ns: the common one, where all of its ranks share it
    end_ns: I64
    shortest_ns: I64  # for each operation: time of the rank that was in it for the shortest
    wait_ns: I64  # until all were there
    together: Mask  # whether its ranks can only leave together
    clocks: Clocks

    def those_together(self) -> "Meetings":
        """Without operations that ranks may leave one by one."""
        if self.together.all():
            return self
        kept = self.together
        operation, first = numbered(self.operation[kept])
        rows = {
            name: getattr(self, name)[kept] for name in ("rank", "place", "shift_ns", "start_ns", "end_ns", "wait_ns")
        }
        shortest_ns = self.shortest_ns[self.operation[kept][first]]
        return replace(self, operation=operation, first=first, shortest_ns=shortest_ns, together=kept[kept], **rows)


def meet(digests: Sequence[Digest]) -> Meetings:
    table = matched([_arrivals(index, digest) for index, digest in enumerate(digests)])
    together = _are(digests, table, ENDS_TOGETHER)
    clocks = align(table if together.all() else table.take(together), len(digests))
    operation, first = numbered(table.operation)
    aligned = _aligned(table, clocks, first, operation)
    shift_ns = _shift_ns(table, clocks, aligned | ~together, first, operation)
    start_ns, end_ns = table.start_ns, table.end_ns
    np.subtract(start_ns, shift_ns, out=start_ns)  # in place: there may be very many
    np.subtract(end_ns, shift_ns, out=end_ns)
    by_clock = _are(digests, table, frozenset({POINT_TO_POINT})) & aligned & clocks.trusted
    shortest_ns, wait_ns = _lengths(start_ns, end_ns, operation, first, by_clock)
    return Meetings(
        rank=table.rank,
        place=table.place,
        operation=operation,
        first=first,
        shift_ns=shift_ns,
        start_ns=start_ns,
        end_ns=end_ns,
        shortest_ns=shortest_ns,
        wait_ns=wait_ns,
        together=together,
        clocks=clocks,
    )


def numbered(operation: Column) -> tuple[I32, I64]:
    """Operations numbered without gaps, and the first row of each; those of an operation are neighbours."""
    begins = np.ones(len(operation), bool)
    begins[1:] = operation[1:] != operation[:-1]
    return np.cumsum(begins, dtype=np.int32) - np.int32(1), np.flatnonzero(begins)


def _aligned(table: Matched, clocks: Clocks, first: I64, operation: I32) -> Mask:
    """Whether all ranks of a row's operation share the common clock.

    Stages of a pipeline may have no collective in common. Of ranks that leave together the operation itself is clock
    enough; a sender and a receiver can then be compared by their lengths only.
    """
    shares = np.ones(len(clocks.offset_ns), bool)
    shares[list(clocks.alone)] = False
    if not len(first):
        return np.empty(0, bool)
    aligned: Mask = np.logical_and.reduceat(shares[table.rank], first)[operation]
    return aligned


def _shift_ns(table: Matched, clocks: Clocks, by_clock: Mask, first: I64, operation: I32) -> I64:
    """How far each row's own clock is ahead: of the common one, or else of the first rank of its operation."""
    shift_ns: I64 = np.array(clocks.offset_ns, np.int64)[table.rank]
    rows = np.flatnonzero(~by_clock)
    shift_ns[rows] = table.end_ns[rows] - table.end_ns[first[operation[rows]]]
    return shift_ns


def _lengths(start_ns: I64, end_ns: I64, operation: I32, first: I64, by_clock: Mask) -> tuple[I64, I64]:
    """The shortest part in each operation, and for each row how long its rank waited for the others.

    Ranks leave together, so who came last was in it for the shortest, and what others took longer was waiting; no
    clock is needed for that. A sender may leave before its receiver has all: both wait until the later one comes.
    """
    wait_ns = end_ns - start_ns
    if not len(first):
        return wait_ns, wait_ns
    shortest_ns = np.minimum.reduceat(wait_ns, first)
    rows = np.flatnonzero(by_clock)
    late_ns = np.maximum.reduceat(start_ns, first)[operation[rows]] - start_ns[rows]
    until_ns = np.clip(late_ns, 0, wait_ns[rows])
    wait_ns -= shortest_ns[operation]
    wait_ns[rows] = until_ns
    return shortest_ns, wait_ns


def _arrivals(index: int, digest: Digest) -> RankArrivals:
    """Exchanges under the keys by which ranks find each other; those that cannot, under the name of their rank."""
    keys: dict[tuple[str, str, int], int] = {}
    names = [
        (one.collective, f"of {index}", number) if one.collective in _WITHOUT_PARTNERS else one.matching_key
        for number, one in enumerate(digest.series)
    ]
    numbers = np.array([keys.setdefault(name, len(keys)) for name in names], np.int32)
    elements = np.array([one.in_elements for one in digest.series], np.int64)
    is_sized = np.array([one.collective in ENDS_TOGETHER for one in digest.series], bool)
    series = digest.exchanges.series
    arrivals = Arrivals(
        start_ns=digest.exchanges.start_ns,
        end_ns=digest.exchanges.end_ns,
        series=numbers[series],
        elements=narrowed(np.where(is_sized, elements, 0))[series],
    )
    return RankArrivals(arrivals=arrivals, series=tuple(keys), zero_ns=digest.zero_ns)


def _are(digests: Sequence[Digest], table: Matched, collectives: frozenset[str]) -> Mask:
    """Which rows are exchanges of one of these kinds."""
    if not any(one.collective in collectives for digest in digests for one in digest.series):
        return np.zeros(len(table), bool)
    chosen = np.zeros(len(table), bool)
    for digest, rows in zip(digests, rows_by_rank(table.rank, len(digests)), strict=True):
        meant = np.array([one.collective in collectives for one in digest.series], bool)
        if meant.any():
            chosen[rows] = meant[digest.exchanges.series[table.place[rows]]]
    return chosen


def blocks_by_rank(rank: Column, ranks: int) -> Iterator[I64]:
    """The rows of some ranks at a time, in order of rank."""
    rows_of = rows_by_rank(rank, ranks)
    while some := list(islice(rows_of, _RANKS_AT_ONCE)):
        yield np.concatenate(some)


def rows_by_rank(rank: Column, ranks: int) -> Iterator[I64]:
    """For each rank in order, the rows that are its own."""
    order = np.argsort(rank, kind="stable")
    edges = np.append(0, np.cumsum(np.bincount(rank, minlength=ranks))).tolist()
    return (order[first:last] for first, last in pairwise(edges))


def waiting_time(meetings: Meetings, digest: Digest, rows: I64) -> Intervals:
    """When a rank was waiting for others, on the clock of its ledger; `rows` are its own."""
    start_ns = digest.exchanges.start_ns[meetings.place[rows]]
    return Intervals.union_of(start_ns, start_ns + meetings.wait_ns[rows])
