"""Exchanges of all ranks put together: who arrived when, on one clock, and how long the others waited."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from redline.analysis.rank.digest import Digest
from redline.analysis.rank.exchanges import POINT_TO_POINT
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64, Column
from redline.trace.clocks import Clocks, align
from redline.trace.collectives import Arrivals, Matched, RankArrivals, matched
from redline.trace.schema import ENDS_TOGETHER

Mask = npt.NDArray[np.bool_]
_WITHOUT_PARTNERS = frozenset({"send", "receive", "send_receive", "unknown"})  # with whom is not known


@dataclass(frozen=True, kw_only=True)
class Meetings:
    """One row per rank and operation that at least two ranks took part in; rows of an operation are neighbours."""

    rank: I64  # index of the digest
    place: I64  # row of its exchanges
    operation: I64  # 0, 1, 2, ... without gaps
    shift_ns: I64  # how far its rank's own clock is ahead of the clock of its operation
    start_ns: I64  # on the clock of its operation, as is end_ns: the common one, where all of its ranks share it
    end_ns: I64
    shortest_ns: I64  # time of the rank of its operation that was in it for the shortest
    wait_ns: I64  # until all were there
    together: Mask  # whether its ranks can only leave together
    clocks: Clocks


def meet(digests: Sequence[Digest]) -> Meetings:
    table = matched([_arrivals(index, digest) for index, digest in enumerate(digests)])
    together = _are(digests, table, ENDS_TOGETHER)
    clocks = align(table.take(together), len(digests))
    _, first, operation = np.unique(table.operation, return_index=True, return_inverse=True)
    aligned = _aligned(table, clocks, operation)
    offset_ns = np.array(clocks.offset_ns, np.int64)[table.rank]
    shift_ns = np.where(aligned | ~together, offset_ns, table.end_ns - table.end_ns[first][operation])
    start_ns, end_ns = table.start_ns - shift_ns, table.end_ns - shift_ns
    by_clock = _are(digests, table, frozenset({POINT_TO_POINT})) & aligned & clocks.trusted
    shortest_ns, wait_ns = _lengths(start_ns, end_ns, operation, first, by_clock)
    return Meetings(
        rank=table.rank.astype(np.int64),
        place=table.place.astype(np.int64),
        operation=operation.astype(np.int64),
        shift_ns=shift_ns,
        start_ns=start_ns,
        end_ns=end_ns,
        shortest_ns=shortest_ns,
        wait_ns=wait_ns,
        together=together,
        clocks=clocks,
    )


def _aligned(table: Matched, clocks: Clocks, operation: I64) -> Mask:
    """Whether all ranks of a row's operation share the common clock.

    Stages of a pipeline may have no collective in common. Of ranks that leave together the operation itself is clock
    enough; a sender and a receiver can then be compared by their lengths only.
    """
    alone = np.isin(table.rank, np.array(clocks.alone, np.int64))
    aligned: Mask = (np.bincount(operation, weights=alone) == 0)[operation]
    return aligned


def _lengths(start_ns: I64, end_ns: I64, operation: I64, first: I64, by_clock: Mask) -> tuple[I64, I64]:
    """The shortest part in the operation of each row, and how long the row's rank waited for the others.

    Ranks leave together, so who came last was in it for the shortest, and what others took longer was waiting; no
    clock is needed for that. A sender may leave before its receiver has all: both wait until the later one comes.
    """
    dur_ns = end_ns - start_ns
    if not len(first):
        return dur_ns, dur_ns
    shortest_ns = np.minimum.reduceat(dur_ns, first)[operation]
    last_ns = np.maximum.reduceat(start_ns, first)[operation]
    return shortest_ns, np.where(by_clock, np.clip(last_ns - start_ns, 0, dur_ns), dur_ns - shortest_ns)


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
        elements=np.where(is_sized, elements, 0)[series],
    )
    return RankArrivals(arrivals=arrivals, series=tuple(keys))


def _are(digests: Sequence[Digest], table: Matched, collectives: frozenset[str]) -> Mask:
    """Which rows are exchanges of one of these kinds."""
    chosen = np.zeros(len(table), bool)
    for digest, rows in zip(digests, rows_by_rank(table.rank, len(digests)), strict=True):
        meant = np.array([one.collective in collectives for one in digest.series], bool)
        if meant.any():
            chosen[rows] = meant[digest.exchanges.series[table.place[rows]]]
    return chosen


def rows_by_rank(rank: Column, ranks: int) -> Iterator[I64]:
    """For each rank in order, the rows that are its own."""
    order = np.argsort(rank, kind="stable")
    edges = np.searchsorted(rank[order], np.arange(ranks + 1)).tolist()
    return (order[first:last] for first, last in pairwise(edges))


def waiting_times(meetings: Meetings, digests: Sequence[Digest]) -> list[Intervals]:
    """For each rank when it was waiting for others, on the clock of its ledger."""
    times = []
    for digest, rows in zip(digests, rows_by_rank(meetings.rank, len(digests)), strict=True):
        start_ns = digest.exchanges.start_ns[meetings.place[rows]] - digest.zero_ns
        times.append(Intervals.union_of(start_ns, start_ns + meetings.wait_ns[rows]))
    return times
