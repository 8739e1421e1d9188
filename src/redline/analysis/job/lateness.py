"""Who arrives late at exchanges, how often, and why: what the late rank did more of than the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from redline.analysis.job.meetings import Mask, Meetings, rows_by_rank
from redline.analysis.rank.digest import Digest
from redline.analysis.rank.exchanges import SPENT
from redline.analysis.rank.owned import Owned
from redline.timeline.table import I64
from redline.timeline.timeline import NONE

Pattern = Literal["fixed", "rotating", "first step only", "one step seen"]
BEFORE, OTHER = "before the window", "other"
CAUSES = (BEFORE, *SPENT, OTHER)
_MOSTLY = 0.6  # of all waiting
_MOST_IN_FLIGHT = 16  # exchanges of a rank that may overlap each other
_NOTABLE_NS = 10_000  # lateness below this is the noise of clocks and launches


@dataclass(frozen=True, kw_only=True)
class Late:
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
    ranks: tuple[Late, ...]  # those who caused most first
    pattern: Pattern
    first_step_share: float  # of the waiting


def lateness_of(meetings: Meetings, digests: Sequence[Digest]) -> Lateness | None:
    """Of exchanges that nobody can leave before all have come; None where there are none.

    Ranks leave together, so how long each was in an exchange says who came last and by how much; no clock is needed.
    """
    if not meetings.together.any():
        return None
    rows = np.flatnonzero(meetings.together)
    _, first, operation = np.unique(meetings.operation[rows], return_index=True, return_inverse=True)
    dur_ns = (meetings.end_ns - meetings.start_ns)[rows]
    median_row, last = _median_and_last(dur_ns, operation, first)
    wait_ns = np.add.reduceat(meetings.wait_ns[rows], first)
    order = np.argsort(meetings.start_ns[rows[last]], kind="stable")
    numbers = np.array([digest.origin.rank for digest in digests])
    steps = _steps(meetings, digests, rows[last])
    first_share, pattern = _pattern(wait_ns, steps, meetings.rank[rows[last]])
    return Lateness(
        operations=len(first),
        residence_ns=int(dur_ns.sum()),
        wait_ns=int(wait_ns.sum()),
        intrinsic_ns=int(np.minimum.reduceat(dur_ns, first).sum()),
        last_ranks=tuple(numbers[meetings.rank[rows[last[order]]]].tolist()),
        ranks=_late_ranks(meetings, digests, rows, operation, (median_row, last)),
        pattern=pattern,
        first_step_share=first_share,
    )


def _median_and_last(dur_ns: I64, operation: I64, first: I64) -> tuple[I64, I64]:
    """For each operation the row of median length (of two, the longer), and the shortest: who came last."""
    order = np.lexsort((dur_ns, operation))
    count = np.diff(np.append(first, len(dur_ns)))
    return order[first + count // 2], order[first]


def _late_ranks(
    meetings: Meetings, digests: Sequence[Digest], rows: I64, operation: I64, compared: tuple[I64, I64]
) -> tuple[Late, ...]:
    usual, last = compared
    dur_ns = (meetings.end_ns - meetings.start_ns)[rows]
    late_ns = dur_ns[usual] - dur_ns[last]
    more = _excess(meetings, digests, rows, operation, compared, late_ns)
    who, mine = np.unique(meetings.rank[rows[last]], return_inverse=True)
    notable = late_ns > _NOTABLE_NS

    def total(amount: I64) -> I64:
        return np.bincount(mine, weights=amount, minlength=len(who)).astype(np.int64)

    causes = np.stack([total(more[cause] * notable) for cause in CAUSES])
    worst = causes.argmax(axis=0)
    caused_ns = _caused_ns(meetings, rows, mine[operation], len(who))
    late_times = np.maximum(total(notable.astype(np.int64)), 1)
    late_sums = total(late_ns * notable)
    causes_ns = causes // late_times
    np.maximum.at(causes_ns[CAUSES.index(BEFORE)], mine, more[BEFORE])  # a head start happens once
    found = [
        Late(
            rank=digests[index].origin.rank,
            last=last_count,
            caused_ns=int(caused_ns[number]),
            share=float(caused_ns[number] / max(int(caused_ns.sum()), 1)),
            cause=CAUSES[worst[number]],
            cause_ns=int(causes_ns[worst[number], number]),
            late_ns=int(late_sums[number] // late_times[number]),
        )
        for number, (index, last_count) in enumerate(zip(who.tolist(), np.bincount(mine).tolist(), strict=True))
    ]
    return tuple(sorted(found, key=lambda one: (-one.caused_ns, one.rank)))


def _excess(
    meetings: Meetings, digests: Sequence[Digest], rows: I64, operation: I64, compared: tuple[I64, I64], late_ns: I64
) -> dict[str, I64]:
    """For each operation how its lateness came about: by cause, what its last rank did more than the median one."""
    usual, last = compared
    level = _level_rows(meetings, rows, operation)
    spent = _spent_since(meetings, digests, rows, level)
    more = {name: amount[last] - amount[usual] for name, amount in spent.items()}
    unexplained_ns = late_ns - sum(more.values())
    more[BEFORE] = np.where(level[last] == NONE, unexplained_ns, 0)
    more[OTHER] = unexplained_ns - more[BEFORE]
    return more


def _caused_ns(meetings: Meetings, rows: I64, culprit: I64, culprits: int) -> I64:
    """What all ranks waited for each culprit; an instant in which a rank waited in two exchanges counts once."""
    start_ns, wait_ns = meetings.start_ns[rows] + meetings.shift_ns[rows], meetings.wait_ns[rows]
    _, group = np.unique(meetings.rank[rows] * culprits + culprit, return_inverse=True)
    # Each waiting rank and culprit gets a stretch of time to itself, so that one pass tells all of them apart.
    start_ns = start_ns - int(start_ns.min())
    begin_ns = start_ns + group * (int((start_ns + wait_ns).max()) + 1)
    owned = Owned.of(culprit, begin_ns, begin_ns + wait_ns)
    return np.bincount(owned.row, weights=owned.dur_ns, minlength=culprits).astype(np.int64)


def _level_rows(meetings: Meetings, rows: I64, operation: I64) -> I64:
    """For each row the last earlier one of its rank that all ranks of its operation had left when this one began.

    From there on, what a rank does more than others makes it late. NONE where the window holds no such exchange.
    Exchanges that are in flight at the same time say nothing about each other, so one looks back until none is. Where
    ranks have exchanged much with others in between, one looks at exchanges of the same ranks only.
    """
    shift_ns, who = meetings.shift_ns[rows], meetings.rank[rows]
    times_ns = (meetings.start_ns[rows] + shift_ns, meetings.end_ns[rows] + shift_ns)  # on the rank's own clock
    level = np.full(len(rows), NONE, np.int64)
    undecided = np.ones(int(operation.max()) + 1, bool)
    _look_back(level, undecided, who, operation, times_ns)
    company = _company(who, operation)
    if len(np.unique(company)) > len(np.unique(who)):
        _look_back(level, undecided, company, operation, times_ns)
    return level


def _company(who: I64, operation: I64) -> I64:
    """A number for each rank and the ranks that it meets; those are known well enough by the first and the sum."""
    first = np.searchsorted(operation, np.arange(int(operation.max()) + 1))
    total = np.add.reduceat(who, first)
    groups, group = np.unique(np.minimum.reduceat(who, first) * (total.max() + 1) + total, return_inverse=True)
    company: I64 = who * len(groups) + group[operation]
    return company


def _look_back(level: I64, undecided: Mask, line: I64, operation: I64, times_ns: tuple[I64, I64]) -> None:
    """Fill in the level of undecided operations from exchanges of the same line (of a rank, or of it with others)."""
    start_ns, end_ns = times_ns
    order = np.lexsort((start_ns, line))
    position = np.empty(len(line), np.int64)
    position[order] = np.arange(len(line))
    for back in range(1, _MOST_IN_FLIGHT + 1):
        before = order[np.maximum(position - back, 0)]
        exists = (position >= back) & (line[before] == line)
        left = exists & (end_ns[before] <= start_ns)
        unfit = np.bincount(operation, weights=~left, minlength=len(undecided)) > 0
        # All ranks must look back to one and the same exchange.
        lowest, highest = np.full(len(undecided), len(line)), np.full(len(undecided), NONE)
        np.minimum.at(lowest, operation, operation[before])
        np.maximum.at(highest, operation, operation[before])
        decided = undecided & ~unfit & (lowest == highest)
        level[decided[operation]] = before[decided[operation]]
        undecided &= ~decided


def _spent_since(meetings: Meetings, digests: Sequence[Digest], rows: I64, level: I64) -> dict[str, I64]:
    """What each row's rank did between the row that it was level at, or the start of its window, and this one; ns."""
    columns = {name: np.empty(len(rows), np.int64) for name in SPENT}
    for digest, here in zip(digests, rows_by_rank(meetings.rank[rows], len(digests)), strict=True):
        place = meetings.place[rows[here]]
        from_start = level[here] == NONE
        before = np.where(from_start, place, meetings.place[rows[level[here]]])  # another rank's where there is none
        for name in SPENT:
            until_us = getattr(digest.exchanges, f"{name}_at_start_us")[place]
            since_us = getattr(digest.exchanges, f"{name}_at_end_us")[before]
            columns[name][here] = 1000 * (until_us - np.where(from_start, 0, since_us))
    return columns


def _steps(meetings: Meetings, digests: Sequence[Digest], rows: I64) -> I64:
    """The step of its rank in which each row began."""
    step = np.empty(len(rows), np.int64)
    for digest, mine in zip(digests, rows_by_rank(meetings.rank[rows], len(digests)), strict=True):
        start_ns = digest.exchanges.start_ns[meetings.place[rows[mine]]] - digest.zero_ns
        step[mine] = np.searchsorted(digest.ledger.start_ns, start_ns, side="right") - 1
    return step


def _pattern(wait_ns: I64, steps: I64, who: I64) -> tuple[float, Pattern]:
    total_ns = max(int(wait_ns.sum()), 1)
    first_share = float(wait_ns[steps <= steps.min()].sum() / total_ns)
    by_rank = np.bincount(who, weights=wait_ns)
    if len(np.unique(steps)) < 2:
        return first_share, "one step seen"
    if first_share >= _MOSTLY:
        return first_share, "first step only"
    return first_share, "fixed" if by_rank.max() >= _MOSTLY * total_ns else "rotating"
