"""All ranks together: digests become one diagnosis. Linear in ranks; no trace is opened."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from redline.job.clocks import Clocks
from redline.job.collectives import rows_by_rank
from redline.job.matched_collectives import MatchedCollectives, waiting_time
from redline.job.rank_order import Claim, RankOrder, jobs_among, rank_order
from redline.ledger.accounts import ACCOUNTS, Account, place
from redline.ledger.job.collective_table import CollectiveRow, collective_table
from redline.ledger.job.lateness import Lateness, lateness_of
from redline.ledger.job.phase_table import PhaseRow, phase_table
from redline.ledger.job.row_tables import host_activities_of, kernels_of
from redline.ledger.job.shared_collectives import shared_collectives
from redline.ledger.rank.comparable_ranks import kinds_of
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.host_activity import HostActivity
from redline.ledger.rank.kernel_table import KernelRow
from redline.ledger.rank.ledger import Amounts, Ledger
from redline.timeline.intervals import Intervals

if TYPE_CHECKING:
    from redline.ledger.job.job_memory import JobMemory


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
    ranks = _in_order(digests, order)
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


def _in_order(digests: Sequence[Digest], order: RankOrder) -> tuple[Digest, ...]:
    return tuple(
        replace(digest, origin=replace(digest.origin, rank=place.rank, rank_origin=place.origin))
        for place in order.places
        for digest in (digests[place.index],)
    )


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
