"""All ranks together: digests become one diagnosis. Linear in ranks; no trace is opened."""

from array import array
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import fields, replace
from functools import cached_property
from operator import attrgetter
from sys import intern
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

import numpy as np

from redline.job.clocks import Clocks
from redline.job.collectives import rows_by_rank
from redline.job.matched_collectives import MatchedCollectives, waiting_time
from redline.job.rank_order import Claim, jobs_among, rank_order
from redline.ledger.accounts import ACCOUNTS, Account, place
from redline.ledger.job.collective_table import CollectiveRow, collective_table, shared_collectives
from redline.ledger.job.lateness import Lateness, lateness_of
from redline.ledger.rank.comparable_ranks import kinds_of
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.host_activity import HostActivity, added
from redline.ledger.rank.host_phases import PHASES, Phase
from redline.ledger.rank.kernel_table import KernelRow, merged
from redline.ledger.rank.ledger import Amounts, Ledger
from redline.ledger.rank.phases import KINDS
from redline.timeline.intervals import Intervals
from redline.values import dataclass

if TYPE_CHECKING:
    from redline.ledger.job.job_memory import JobMemory

Row = TypeVar("Row")
_AT_ONCE = 1024  # rows that are made together
_SHORT = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseRow:
    """One phase of the average step, in ns."""

    phase: Phase
    device_ns: float
    host_ns: float
    waiting_ns: float
    share: float  # of the step

    @property
    def time_ns(self) -> float:
        return self.device_ns + self.host_ns + self.waiting_ns


def phase_table(ranks: Sequence[Digest]) -> tuple[PhaseRow, ...]:
    """All phases in order; none where a rank does not tell them, or nothing takes any time."""
    if not all(rank.phases for rank in ranks):
        return ()
    total = np.array([rank.phases for rank in ranks], np.float64).sum(axis=0).reshape(len(PHASES), len(KINDS))
    steps = sum(len(rank.ledger.start_ns) for rank in ranks)
    if not steps or not total.sum():
        return ()
    shares = total.sum(axis=1) / total.sum()
    return tuple(
        PhaseRow(phase=phase, device_ns=cells[0], host_ns=cells[1], waiting_ns=cells[2], share=share)
        for phase, cells, share in zip(PHASES, (total / steps).tolist(), shares.tolist(), strict=True)
    )


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """What is known of a job: each rank with its ledger, and what they have in common."""

    ranks: tuple[Digest, ...]  # in order; waiting for peers is told from transfer in their ledgers
    kinds: tuple[int, ...]  # for each rank a number: only ranks of the same number do the same work
    clocks: Clocks
    lateness: Lateness | None
    collectives: tuple[CollectiveRow, ...]
    kernels: Sequence[KernelRow]  # over all ranks
    doing: Sequence[HostActivity]
    world_size: int
    doubles: tuple[int, ...]
    missing: tuple[int, ...]
    unmatched_ns: int  # exposed communication that could not be told from waiting, over all ranks
    exposed_ns: int  # all exposed communication, over all ranks
    waiting: tuple[Intervals, ...]  # for each rank its exposed communication that was waiting for others
    phases: tuple[PhaseRow, ...] = ()  # of the average step; none where the traces do not tell them
    memory: "JobMemory | None" = None  # None where no allocation was recorded

    @property
    def predicted(self) -> bool:
        """Whether nothing of it ran: the timelines are those of a plan."""
        return all(rank.origin.predicted for rank in self.ranks)

    @property
    def altered(self) -> str:
        """The what-ifs that its timelines were altered by, as they were written; "" where it was not."""
        return "; ".join(dict.fromkeys(change for rank in self.ranks for change in rank.origin.altered))

    @property
    def jobs(self) -> int:
        return jobs_among([rank.zero_ns for rank in self.ranks])

    @property
    def rank_steps(self) -> int:
        return sum(len(rank.ledger.start_ns) for rank in self.ranks)

    @cached_property
    def in_steps(self) -> Amounts:
        """Accounts inside steps, added over all ranks."""
        total: Amounts = np.sum([rank.ledger.steps.sum(axis=0) for rank in self.ranks], axis=0)
        return total

    @property
    def per_step(self) -> dict[Account, float]:
        """The average step of a rank, in ns."""
        amounts = self.in_steps / max(self.rank_steps, 1)
        return dict(zip(ACCOUNTS, amounts.tolist(), strict=True))


def combine(digests: Sequence[Digest]) -> Diagnosis:
    order = rank_order([_claim(digest) for digest in digests])
    ranks = tuple(
        replace(digest, origin=replace(digest.origin, rank=place.rank, rank_origin=place.origin))
        for place in order.places
        for digest in (digests[place.index],)
    )
    memory = _memory(ranks)
    shared_calls = shared_collectives(ranks)
    lateness, collectives, clocks = (
        lateness_of(shared_calls, ranks),
        collective_table(ranks, shared_calls),
        shared_calls.clocks,
    )
    ranks, waiting, unmatched_ns = _resolved(ranks, shared_calls)
    del shared_calls  # as large as all digests
    return Diagnosis(
        ranks=ranks,
        kinds=kinds_of([rank.signature for rank in ranks], [_kernels_per_step(rank) for rank in ranks]),
        clocks=clocks,
        lateness=lateness,
        collectives=collectives,
        kernels=kernels_of(ranks),
        doing=host_activities_of(ranks),
        world_size=order.world_size,
        doubles=order.doubles,
        missing=order.missing,
        unmatched_ns=unmatched_ns,
        exposed_ns=_exposed_ns(ranks),
        waiting=waiting,
        phases=phase_table(ranks),
        memory=memory,
    )


def _claim(digest: Digest) -> Claim:
    origin = digest.origin
    return Claim(rank=origin.rank, origin=origin.rank_origin, world_size=origin.world_size)


def _memory(ranks: Sequence[Digest]) -> "JobMemory | None":
    if not any(rank.memory for rank in ranks):
        return None
    from redline.ledger.job.job_memory import job_memory

    return job_memory(ranks)


def _resolved(
    ranks: Sequence[Digest], shared_calls: MatchedCollectives
) -> tuple[tuple[Digest, ...], tuple[Intervals, ...], int]:
    """Ledgers in which waiting has left the transfer account, when that was, and exposed time of exchanges seen on one
    rank only."""
    resolved, waited = [], []
    met_ns = 0
    rows_of = rows_by_rank(shared_calls.rank, len(ranks))
    for digest, rows in zip(ranks, rows_of, strict=True):
        met_ns += int(digest.exchanges.exposed_ns[shared_calls.place[rows]].sum())
        waited.append(digest.exposed & waiting_time(shared_calls, digest.exchanges.start_ns, rows))
        ledger = _without_waiting(digest.ledger, waited[-1])
        ledger.self_check()
        resolved.append(replace(digest, ledger=ledger, memory=b""))  # the job has it
    return tuple(resolved), tuple(waited), max(_exposed_ns(ranks) - met_ns, 0)


def _without_waiting(ledger: Ledger, waiting: Intervals) -> Ledger:
    """With waiting out of the transfer account: never more than was in it, as a digest may have closed small gaps."""
    in_steps = waiting.overlap_with(ledger.start_ns, ledger.end_ns)
    outside = waiting.length_ns - int(in_steps.sum())
    transfer = place(Account.TRANSFER)
    return ledger.moved(
        Account.TRANSFER,
        Account.PEER_WAIT,
        np.minimum(in_steps, ledger.steps[:, transfer]),
        min(outside, int(ledger.outside[transfer])),
    )


def _exposed_ns(ranks: Sequence[Digest]) -> int:
    """Communication that nothing else covered, over all ranks."""
    return sum(rank.ledger.of(Account.TRANSFER) + rank.ledger.of(Account.PEER_WAIT) for rank in ranks)


def _kernels_per_step(rank: Digest) -> float:
    """Of those that have a launch: others may be left from before the window."""
    return max(rank.facts.kernels - rank.facts.without_launch, 0) / max(len(rank.ledger.start_ns), 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class RowTable(Sequence[Row], Generic[Row]):
    """Rows in order; each look makes them anew."""

    kind: ClassVar[type]
    columns: tuple[Any, ...]  # of texts or numbers, one for each field of a row

    def __len__(self) -> int:
        return len(self.columns[0])

    def __iter__(self) -> Iterator[Row]:
        return (row for begin in range(0, len(self), _AT_ONCE) for row in self[begin : begin + _AT_ONCE])

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        if not isinstance(index, slice):
            place = range(len(self))[index]
            return self[place : place + 1][0]
        names = [field.name for field in fields(self.kind)]
        parts = (column[index] for column in self.columns)
        plain = (part.tolist() if isinstance(part, np.ndarray) else part for part in parts)
        return tuple(self.kind(**dict(zip(names, row, strict=True))) for row in zip(*plain, strict=True))


class KernelTable(RowTable[KernelRow]):
    """The table of kernels of a job."""

    kind = KernelRow


class HostActivityTable(RowTable[HostActivity]):
    """What the host did, of a job."""

    kind = HostActivity


def kernels_of(ranks: Sequence[Digest]) -> Sequence[KernelRow]:
    """By operator and shape, the longest first."""
    kinds = dict.fromkeys(("calls", "kernels", "time_ns", "flops", "bytes", "above"), "q")
    try:
        sums = _Sums(KernelRow, kinds | {"math_ns": "d", "memory_ns": "d"}, attrgetter("key"))
        for rank in ranks:
            sums.add(rank.kernels)
        return KernelTable(columns=sums.in_order(lambda key: key))
    except OverflowError:  # sums beyond 63 bits: of few rows, as all ranks have them in common
        return merged(row for rank in ranks for row in rank.kernels)


def host_activities_of(ranks: Sequence[Digest]) -> Sequence[HostActivity]:
    """By what it was, the longest first."""
    key = attrgetter("account", "kind", "name", "region", "site")
    try:
        sums = _Sums(HostActivity, {"time_ns": "q", "times": "q"}, key)
        for rank in ranks:
            sums.add(rank.doing)
        return HostActivityTable(columns=sums.in_order(lambda row: row[2:]))
    except OverflowError:
        return added(row for rank in ranks for row in rank.doing)


class _Sums(Generic[Row]):
    """Rows with the same key as one: the first, with the amounts of all."""

    def __init__(self, kind: type, summed: dict[str, str], key_of: Callable[[Row], Hashable]) -> None:
        self._key_of = key_of
        self._places: dict[Hashable, int] = {}
        names = [field.name for field in fields(kind)]
        self._columns: dict[str, Any] = {name: array(summed[name]) if name in summed else [] for name in names}
        self._amounts_of = attrgetter(*summed)
        self._sums = [self._columns[name] for name in summed]
        self._texts_of = attrgetter(*(name for name in names if name not in summed))
        self._texts = [self._columns[name] for name in names if name not in summed]

    def add(self, rows: Sequence[Row]) -> None:
        for row in rows:
            key = self._key_of(row)
            place = self._places.setdefault(key, len(self._places))
            if place < len(self._sums[0]):
                for column, amount in zip(self._sums, self._amounts_of(row), strict=True):
                    column[place] += amount
                continue
            for column, amount in zip(self._sums, self._amounts_of(row), strict=True):
                column.append(amount)
            for column, text in zip(self._texts, self._texts_of(row), strict=True):
                # Names of operators and types are few, and short; what is long is mostly a rank's own.
                column.append(intern(text) if type(text) is str and len(text) < _SHORT else text)

    def in_order(self, then_by: Callable[[Any], Any]) -> tuple[Any, ...]:
        """The columns, the longest time first, of equal ones by their key."""
        time_ns = np.array(self._columns["time_ns"], np.int64)
        order = np.argsort(-time_ns, kind="stable")
        self._sort_equal(order, time_ns, then_by)
        places = order.tolist()
        return tuple(
            np.array(column)[order] if isinstance(column, array) else tuple(map(column.__getitem__, places))
            for column in self._columns.values()
        )

    def _sort_equal(self, order: Any, time_ns: Any, then_by: Callable[[Any], Any]) -> None:
        keys = list(self._places)
        equal = time_ns[order[1:]] == time_ns[order[:-1]]
        edges = np.flatnonzero(np.diff(equal, prepend=False, append=False))
        for begin, end in edges.reshape(-1, 2).tolist():
            order[begin : end + 1] = sorted(order[begin : end + 1].tolist(), key=lambda place: then_by(keys[place]))
