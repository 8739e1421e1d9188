"""The collectives that ranks share: who arrived when, on one clock, and how long the others waited."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from redline.job.clocks import Clocks, on_one_clock
from redline.job.collectives import Matched, RankArrivals, are_of, numbered
from redline.timeline.intervals import Intervals, Mask
from redline.timeline.table import I32, I64
from redline.values import dataclass


@dataclass(frozen=True, kw_only=True)
class MatchedCollectives:
    """One row per rank and operation that at least two ranks took part in; rows of an operation are neighbours."""

    rank: I32  # index of the rank in the order given
    place: I32  # row of its arrivals
    operation: I32  # 0, 1, 2, ... without gaps
    first: I64  # the first row of each operation
    shift_ns: I64  # how far its rank's own clock is ahead of the clock of its operation
    start_ns: I64  # on the clock of its operation, as is end_ns: the common one, where all of its ranks share it
    end_ns: I64
    shortest_ns: I64  # for each operation: time of the rank that was in it for the shortest
    wait_ns: I64  # until all were there
    together: Mask  # whether its ranks can only leave together
    clocks: Clocks

    def those_together(self) -> "MatchedCollectives":
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


def match_collectives(ranks: Sequence[RankArrivals], one_way: frozenset[str]) -> MatchedCollectives:
    """`one_way` names the operations that a sender may leave before its receiver has all."""
    table, together, clocks = on_one_clock(ranks)
    operation, first = numbered(table.operation)
    aligned = _aligned(table, clocks, first, operation)
    shift_ns = _shift_ns(table, clocks, aligned | ~together, first, operation)
    start_ns, end_ns = table.start_ns, table.end_ns
    np.subtract(start_ns, shift_ns, out=start_ns)  # in place: there may be very many
    np.subtract(end_ns, shift_ns, out=end_ns)
    by_clock = are_of(ranks, table, one_way) & aligned & clocks.trusted
    shortest_ns, wait_ns = _lengths(start_ns, end_ns, operation, first, by_clock)
    return MatchedCollectives(
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


def _aligned(table: Matched, clocks: Clocks, first: I64, operation: I32) -> Mask:
    """True of a row if all ranks of its operation share the common clock.

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


def waiting_time(shared_calls: MatchedCollectives, start_ns: I64, rows: I64) -> Intervals:
    """When a rank was waiting for others, on the clock of `start_ns`: when its arrivals began; `rows` are its own."""
    began_ns = start_ns[shared_calls.place[rows]]
    return Intervals.union_of(began_ns, began_ns + shared_calls.wait_ns[rows])
