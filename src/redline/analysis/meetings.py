"""Exchanges of all ranks put together: who arrived when, on one clock, and how long the others waited."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from redline.analysis.digest import Digest
from redline.analysis.exchanges import POINT_TO_POINT
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.trace.clocks import Clocks, align
from redline.trace.collectives import Arrivals, Matched, RankArrivals, matched
from redline.trace.schema import ENDS_TOGETHER

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Meetings:
    """One row per rank and operation that at least two ranks took part in; rows of an operation are neighbours."""

    rank: I64  # index of the digest
    place: I64  # row of its exchanges
    operation: I64  # 0, 1, 2, ... without gaps
    first: I64  # for each operation its first row
    start_ns: I64  # on the common clock, as is end_ns
    end_ns: I64
    shortest_ns: I64  # time of the rank of its operation that was in it for the shortest
    wait_ns: I64  # until all were there
    together: Mask  # whether its ranks can only leave together
    clocks: Clocks

    def __len__(self) -> int:
        return len(self.rank)

    @property
    def operations(self) -> int:
        return len(self.first)

    def widened(self, per_operation: I64) -> I64:
        """One value per operation, for each of its rows."""
        wide: I64 = per_operation[self.operation]
        return wide


def meet(digests: Sequence[Digest]) -> Meetings:
    table = matched([_arrivals(digest) for digest in digests])
    word = _words(digests, table)
    together = np.isin(word, list(ENDS_TOGETHER))
    clocks = align(table.take(together), len(digests))
    offset_ns = np.array(clocks.offset_ns, np.int64)[table.rank]
    start_ns, end_ns = table.start_ns - offset_ns, table.end_ns - offset_ns
    _, first, operation = np.unique(table.operation, return_index=True, return_inverse=True)
    pairs = word == POINT_TO_POINT
    shortest_ns, wait_ns = _lengths(start_ns, end_ns, operation, first, by_clock=pairs & clocks.trusted)
    return Meetings(
        rank=table.rank.astype(np.int64),
        place=table.place.astype(np.int64),
        operation=operation.astype(np.int64),
        first=first.astype(np.int64),
        start_ns=start_ns,
        end_ns=end_ns,
        shortest_ns=shortest_ns,
        wait_ns=wait_ns,
        together=together,
        clocks=clocks,
    )


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


def _arrivals(digest: Digest) -> RankArrivals:
    """Exchanges under the keys by which ranks find each other."""
    keys: dict[tuple[str, str, int], int] = {}
    numbers = np.array([keys.setdefault(one.matching_key, len(keys)) for one in digest.series], np.int32)
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


def _words(digests: Sequence[Digest], table: Matched) -> npt.NDArray[np.str_]:
    """The collective of each row."""
    word = np.empty(len(table), "U24")
    order = np.argsort(table.rank, kind="stable")
    edges = np.searchsorted(table.rank[order], np.arange(len(digests) + 1))
    for index, digest in enumerate(digests):
        rows = order[edges[index] : edges[index + 1]]
        if len(rows):
            names = np.array([one.collective for one in digest.series])
            word[rows] = names[digest.exchanges.series[table.place[rows]]]
    return word


def waiting_times(meetings: Meetings, digests: Sequence[Digest]) -> list[Intervals]:
    """For each rank when it was waiting for others, on the clock of its ledger."""
    order = np.argsort(meetings.rank, kind="stable")
    edges = np.searchsorted(meetings.rank[order], np.arange(len(digests) + 1))
    times = []
    for index, digest in enumerate(digests):
        rows = order[edges[index] : edges[index + 1]]
        start_ns = digest.exchanges.start_ns[meetings.place[rows]] - digest.zero_ns
        times.append(Intervals.union_of(start_ns, start_ns + meetings.wait_ns[rows]))
    return times
