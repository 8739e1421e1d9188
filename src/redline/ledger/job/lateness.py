"""Who arrives late at exchanges, how often, and why: what the late rank did more of than the others."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from redline.job.collectives import blocks_by_rank, numbered, rows_by_rank
from redline.job.matched_collectives import MatchedCollectives
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.disjoint_work import Owned
from redline.ledger.rank.exchanges import SPENT
from redline.timeline.intervals import Mask
from redline.timeline.table import I32, I64
from redline.timeline.timeline import NONE
from redline.values import dataclass

Floats = npt.NDArray[np.float64]
Pattern = Literal["fixed", "rotating", "first step only", "one step seen"]
BEFORE, OTHER = "before the window", "other"
CAUSES = (BEFORE, *SPENT, OTHER)
_MOSTLY = 0.6  # of all waiting
_MOST_IN_FLIGHT = 16  # exchanges of a rank that may overlap each other
_OPERATIONS_AT_ONCE = 4096  # so that what is made on the way is small however many ranks there are
_SAME_WORK = 0.02  # of a step's work may be missing on a rank
_NOTABLE_NS = 10_000  # lateness below this is the noise of clocks and launches


@dataclass(frozen=True, kw_only=True)
class LateRank:
    """One rank that others waited for."""

    rank: int
    last: int  # operations at which it was the last
    caused_ns: int  # what all others together waited for it; an instant once, where exchanges overlap
    share: float  # of all waiting
    cause: str  # one of CAUSES: of what it did more than the others
    cause_ns: int  # how much more, on average over the operations at which it was late; of BEFORE the most
    late_ns: int  # how late it was against the median rank, on average over the same


@dataclass(frozen=True, kw_only=True)
class Lateness:
    """The waiting of a job, by who caused it."""

    operations: int
    residence_ns: int  # time inside these exchanges, over all ranks
    wait_ns: int
    intrinsic_ns: int  # sum over operations of the shortest part in it: what the exchange itself takes
    last_ranks: tuple[int, ...]  # who was last, per operation, in order of time
    ranks: tuple[LateRank, ...]  # those who caused most first
    pattern: Pattern
    first_step_share: float  # of the waiting
    speed_share: float  # of the waiting: on CPUs, for a rank that did the same work more slowly


def lateness_of(shared_calls: MatchedCollectives, digests: Sequence[Digest]) -> Lateness | None:
    """Lateness in exchanges that nobody can leave before all have come, or None where there are none.

    Ranks leave together, so how long each was in an exchange says who came last and by how much; no clock is needed.
    """
    if not shared_calls.together.any():
        return None
    shared_calls = shared_calls.those_together()
    first = shared_calls.first
    median, last = _median_and_last(shared_calls)
    steps = _steps(shared_calls, digests, last)
    excess = _excess(shared_calls, digests, median, last, steps)
    wait_ns = np.add.reduceat(shared_calls.wait_ns, first)
    order = np.argsort(shared_calls.start_ns[last], kind="stable")
    numbers = np.array([digest.origin.rank for digest in digests])
    first_share, pattern = _pattern(wait_ns, steps, shared_calls.rank[last])
    return Lateness(
        operations=len(first),
        residence_ns=int(shared_calls.end_ns.sum() - shared_calls.start_ns.sum()),
        wait_ns=int(wait_ns.sum()),
        intrinsic_ns=int(shared_calls.shortest_ns.sum()),
        last_ranks=tuple(numbers[shared_calls.rank[last[order]]].tolist()),
        ranks=_late_ranks(shared_calls, digests, last, excess),
        pattern=pattern,
        first_step_share=first_share,
        speed_share=float((wait_ns * excess.speed_share).sum() / max(int(wait_ns.sum()), 1)),
    )


def _median_and_last(shared_calls: MatchedCollectives) -> tuple[I64, I64]:
    """For each operation the row of median length (of two, the longer), and the shortest: who came last."""
    first = shared_calls.first
    median, last = np.empty_like(first), np.empty_like(first)
    border = np.append(first, len(shared_calls.rank))
    for begin in range(0, len(first), _OPERATIONS_AT_ONCE):
        here = border[begin : begin + _OPERATIONS_AT_ONCE + 1]
        rows = np.arange(here[0], here[-1])
        order = rows[np.lexsort((_lengths_ns(shared_calls, rows), shared_calls.operation[rows]))]
        median[begin : begin + len(here) - 1] = order[here[:-1] - here[0] + np.diff(here) // 2]
        last[begin : begin + len(here) - 1] = order[here[:-1] - here[0]]
    return median, last


def _late_ranks(
    shared_calls: MatchedCollectives, digests: Sequence[Digest], last: I64, excess: "_Excess"
) -> tuple[LateRank, ...]:
    late_ns, more = excess.late_ns, excess.more_ns
    who, mine = np.unique(shared_calls.rank[last], return_inverse=True)
    notable = late_ns > _NOTABLE_NS

    def total(amount: I64) -> I64:
        return np.bincount(mine, weights=amount, minlength=len(who)).astype(np.int64)

    causes = np.stack([total(more[cause] * notable) for cause in CAUSES])
    worst = causes.argmax(axis=0)
    caused_ns = _caused_ns(shared_calls, len(digests), mine, len(who))
    all_caused_ns = max(int(caused_ns.sum()), 1)
    late_times = np.maximum(total(notable.astype(np.int64)), 1)
    late_sums = total(late_ns * notable)
    causes_ns = causes // late_times
    np.maximum.at(causes_ns[CAUSES.index(BEFORE)], mine, more[BEFORE])  # a head start happens once
    late_ranks = [
        LateRank(
            rank=digests[index].origin.rank,
            last=last_count,
            caused_ns=int(caused_ns[number]),
            share=float(caused_ns[number] / all_caused_ns),
            cause=CAUSES[worst[number]],
            cause_ns=int(causes_ns[worst[number], number]),
            late_ns=int(late_sums[number] // late_times[number]),
        )
        for number, (index, last_count) in enumerate(zip(who.tolist(), np.bincount(mine).tolist(), strict=True))
    ]
    return tuple(sorted(late_ranks, key=lambda late_rank: (-late_rank.caused_ns, late_rank.rank)))


def _lengths_ns(shared_calls: MatchedCollectives, rows: I64) -> I64:
    return shared_calls.end_ns[rows] - shared_calls.start_ns[rows]


@dataclass(frozen=True, kw_only=True)
class _Excess:
    """For each operation how the lateness of its last rank came about."""

    late_ns: I64  # against the median rank
    more_ns: dict[str, I64]  # by cause, what it did more than the median rank
    speed_share: Floats  # of the lateness, on CPUs: the same work took longer, and Python in proportion, or the thread
    # had no core. Cores of a machine that others use too differ by tens of percent from second to second


def _excess(shared_calls: MatchedCollectives, digests: Sequence[Digest], median: I64, last: I64, steps: I64) -> _Excess:
    """Split how late each last rank came by what it did more than the median rank since both left an exchange together.

                  late   input   host   compute   unexplained
    median rank            0      30      100
    last rank       40    10      35      120
    more                  10       5       20         5       beyond the window if they left none together, else other

    Its compute took 1.2 times as long, and so may its host: of the 5 none is its own. Of the 40, 10 are then its own
    doing (loading), and 30, a share of 0.75, the speed of its cores, if all ranks do the same work on CPUs.
    """
    level = _level_rows(shared_calls, len(digests))
    usual, own = (_spent_since(shared_calls, digests, rows, level[rows]) for rows in (median, last))
    late_ns = _lengths_ns(shared_calls, median) - _lengths_ns(shared_calls, last)
    more = {name: own[name] - usual[name] for name in SPENT}
    unexplained_ns = late_ns - sum(more.values())
    more[BEFORE] = np.where(level[last] == NONE, unexplained_ns, 0)
    more[OTHER] = unexplained_ns - more[BEFORE]
    slower = np.maximum(own["compute"] / np.maximum(usual["compute"], 1), 1.0)
    usual_queue_ns, own_queue_ns = (_queued_ns(digests, shared_calls.rank[rows], steps) for rows in (median, last))
    queued_ns = np.maximum(own_queue_ns - usual_queue_ns, 0)
    own_host_ns = np.maximum(more["host"] - (slower - 1) * usual["host"] - queued_ns, 0)
    own_ns = own_host_ns + np.maximum(more["input"], 0) + np.maximum(more[BEFORE], 0)
    own_share = np.clip(own_ns / np.maximum(late_ns, 1), 0.0, 1.0)
    return _Excess(late_ns=late_ns, more_ns=more, speed_share=np.where(_same_work(digests, steps), 1 - own_share, 0.0))


def _queued_ns(digests: Sequence[Digest], ranks: I32, steps: I64) -> I64:
    """How long these ranks had no core in these steps, where that was counted."""
    queued = np.zeros((len(digests), int(steps.max(initial=0)) + 1), np.int64)
    for place, digest in enumerate(digests):
        known = digest.step_queue_ns[: queued.shape[1]]
        queued[place, : len(known)] = known
    waited: I64 = queued[ranks, np.maximum(steps, 0)]
    return waited


def _same_work(digests: Sequence[Digest], steps: I64) -> Mask:
    """For each of these steps whether all ranks run on CPUs and do the same work in it."""
    works = [digest.step_work for digest in digests]
    if not works[0] or any(len(work) != len(works[0]) for work in works):
        return np.zeros(len(steps), bool)
    work = np.array(works)
    least, most = work.min(axis=0), work.max(axis=0)
    same: Mask = (least > 0) & (most - least <= _SAME_WORK * most)
    return same[np.clip(steps, 0, len(same) - 1)]


def _caused_ns(shared_calls: MatchedCollectives, ranks: int, culprit: I64, culprits: int) -> I64:
    """What all ranks waited for each culprit, who is known of each operation; an instant in which a rank waited in two
    exchanges counts once."""
    caused_ns = np.zeros(culprits, np.int64)
    for block in blocks_by_rank(shared_calls.rank, ranks):
        rows = block[shared_calls.wait_ns[block] > 0]
        if len(rows):
            caused_ns += _caused_on(shared_calls, rows, culprit[shared_calls.operation[rows]], culprits)
    return caused_ns


def _caused_on(shared_calls: MatchedCollectives, rows: I64, culprit: I64, culprits: int) -> I64:
    start_ns, wait_ns = shared_calls.start_ns[rows] + shared_calls.shift_ns[rows], shared_calls.wait_ns[rows]
    _, group = np.unique(shared_calls.rank[rows].astype(np.int64) * culprits + culprit, return_inverse=True)
    # Each waiting rank and culprit gets a stretch of time to itself, so that one pass tells all of them apart.
    start_ns = start_ns - int(start_ns.min())
    begin_ns = start_ns + group * (int((start_ns + wait_ns).max()) + 1)
    owned = Owned.of(culprit, begin_ns, begin_ns + wait_ns)
    return np.bincount(owned.row, weights=owned.dur_ns, minlength=culprits).astype(np.int64)


def _level_rows(shared_calls: MatchedCollectives, ranks: int) -> I32:
    """For each row the last earlier one of its rank that all ranks of its operation had left when this one began.

    From there on, what a rank does more than others makes it late. NONE where the window holds no such exchange.
    Exchanges that are in flight at the same time say nothing about each other, so one looks back until none is. Where
    ranks have exchanged much with others in between, one looks at exchanges of the same ranks only.
    """
    level = np.full(len(shared_calls.rank), NONE, np.int32)
    undecided = np.ones(len(shared_calls.first), bool)
    company = _company(shared_calls)
    _look_back(level, undecided, shared_calls, ranks, np.zeros_like(company))
    if undecided.any() and company.any():
        _look_back(level, undecided, shared_calls, ranks, company)
    return level


def _company(shared_calls: MatchedCollectives) -> I32:
    """For each operation a number of the ranks that meet; they are known well enough by the first and the sum."""
    total = np.add.reduceat(shared_calls.rank, shared_calls.first, dtype=np.int64)
    lowest = np.minimum.reduceat(shared_calls.rank, shared_calls.first)
    return np.unique(lowest * (total.max() + 1) + total, return_inverse=True)[1].astype(np.int32)


def _look_back(level: I32, undecided: Mask, shared_calls: MatchedCollectives, ranks: int, company: I32) -> None:
    """Fill in the level of undecided operations from exchanges of the same rank in the same company."""
    order = _lines(shared_calls, ranks, company)
    position = np.empty(len(order), np.int32)
    position[order] = np.arange(len(order), dtype=np.int32)
    borders = np.append(shared_calls.first[::_OPERATIONS_AT_ONCE], len(order)).tolist()
    for begin, end in pairwise(borders):
        _look_back_from(np.arange(begin, end), level, undecided, shared_calls, (order, position, company))


def _lines(shared_calls: MatchedCollectives, ranks: int, company: I32) -> I32:
    """All rows in order of rank, of company, and of start on the clock of the rank."""
    order = np.empty(len(shared_calls.rank), np.int32)
    done = 0
    for rows in blocks_by_rank(shared_calls.rank, ranks):
        start_ns = shared_calls.start_ns[rows] + shared_calls.shift_ns[rows]
        by = np.lexsort((start_ns, company[shared_calls.operation[rows]], shared_calls.rank[rows]))
        order[done : done + len(rows)] = rows[by]
        done += len(rows)
    return order


def _look_back_from(
    rows: I64, level: I32, undecided: Mask, shared_calls: MatchedCollectives, lines: tuple[I32, I32, I32]
) -> None:
    order, position, company = lines
    asked = undecided[shared_calls.operation[rows]]
    for back in range(1, _MOST_IN_FLIGHT + 1):
        rows = rows[asked]
        if not len(rows):
            return
        operation, first = numbered(shared_calls.operation[rows])
        before = order[np.maximum(position[rows] - back, 0)]
        met = shared_calls.operation[before]
        exists = (position[rows] >= back) & (shared_calls.rank[before] == shared_calls.rank[rows])
        exists &= company[met] == company[shared_calls.operation[rows]]
        left_ns = shared_calls.end_ns[before] + shared_calls.shift_ns[before]
        left = exists & (left_ns <= shared_calls.start_ns[rows] + shared_calls.shift_ns[rows])
        # All ranks must look back to one and the same exchange.
        decided = np.logical_and.reduceat(left, first)
        decided &= np.minimum.reduceat(met, first) == np.maximum.reduceat(met, first)
        chosen = decided[operation]
        level[rows[chosen]] = before[chosen]
        undecided[shared_calls.operation[rows[first]][decided]] = False
        asked = (~decided & np.logical_and.reduceat(exists, first))[operation]  # else nothing is farther back


def _spent_since(shared_calls: MatchedCollectives, digests: Sequence[Digest], rows: I64, level: I32) -> dict[str, I64]:
    """What each row's rank did between the row that it was level at, or the start of its window, and this one; ns."""
    columns = {name: np.empty(len(rows), np.int64) for name in SPENT}
    for digest, here in zip(digests, rows_by_rank(shared_calls.rank[rows], len(digests)), strict=True):
        if not len(here):
            continue
        place = shared_calls.place[rows[here]]
        from_start = level[here] == NONE
        before = np.where(from_start, place, shared_calls.place[level[here]])  # another rank's where there is none
        spent = digest.spent.unpacked()
        for name in SPENT:
            until_us = getattr(spent, f"{name}_at_start_us")[place]
            since_us = getattr(spent, f"{name}_at_end_us")[before]
            columns[name][here] = 1000 * (until_us - np.where(from_start, 0, since_us))
    return columns


def _steps(shared_calls: MatchedCollectives, digests: Sequence[Digest], rows: I64) -> I64:
    """The step of its rank in which each row began."""
    step = np.empty(len(rows), np.int64)
    for digest, mine in zip(digests, rows_by_rank(shared_calls.rank[rows], len(digests)), strict=True):
        if len(mine):
            start_ns = digest.exchanges.start_ns[shared_calls.place[rows[mine]]]
            step[mine] = np.searchsorted(digest.ledger.start_ns, start_ns, side="right") - 1
    return step


def _pattern(wait_ns: I64, steps: I64, who: I32) -> tuple[float, Pattern]:
    total_ns = max(int(wait_ns.sum()), 1)
    first_share = float(wait_ns[steps <= steps.min()].sum() / total_ns)
    by_rank = np.bincount(who, weights=wait_ns)
    if len(np.unique(steps)) < 2:
        return first_share, "one step seen"
    if first_share >= _MOSTLY:
        return first_share, "first step only"
    return first_share, "fixed" if by_rank.max() >= _MOSTLY * total_ns else "rotating"
