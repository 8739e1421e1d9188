"""Clocks of ranks brought together: collectives without a root end on all ranks at once, so their ends must agree.

Each observed end is the operation's true end plus the offset of the rank's clock plus some noise. Offsets and true
ends are found in turn, each as a median of the others, which a few wild observations cannot move.
"""

from collections.abc import Sequence

import numpy as np

from redline.job.collectives import Matched, RankArrivals, are_of, matched, numbered
from redline.timeline.intervals import Mask
from redline.timeline.table import I64, Column
from redline.trace.schema import ENDS_TOGETHER
from redline.values import dataclass

_ROUNDS = 8
TRUSTED_RESIDUAL_NS = 1_000_000
"""Ends of one collective differ by some us between GPUs and by some hundred us between busy CPUs. Beyond this, either
the operations were matched wrongly or the clocks drift: nothing that is said across ranks could be trusted."""


@dataclass(frozen=True, kw_only=True)
class Clocks:
    """The offset of each rank's clock from the one that all share, and how well that fits."""

    offset_ns: tuple[int, ...]
    residual_ns: tuple[int, ...]  # median distance of the rank's ends from the agreed ones, after the offset
    worst_ns: int  # largest distance of any end
    operations: int
    alone: tuple[int, ...]  # ranks that share no collective with the others; their offset is 0

    @property
    def trusted(self) -> bool:
        return max(self.residual_ns, default=0) <= TRUSTED_RESIDUAL_NS


def on_one_clock(ranks: Sequence[RankArrivals]) -> tuple[Matched, Mask, Clocks]:
    """The one way from what each rank took part in to a common clock.

    Gives the operations that ranks share, which of them their ranks can only leave together, and the clocks by those.
    """
    table = matched(ranks)
    together = are_of(ranks, table, ENDS_TOGETHER)
    clocks = align(table if together.all() else table.take(together), len(ranks))
    return table, together, clocks


def align(table: Matched, ranks: int) -> Clocks:
    """Offsets of the ranks' clocks against the clock of the rank with most collectives, or against 0 for the job."""
    operation, rank, end = numbered(table.operation)[0], table.rank, table.end_ns
    if not len(end):
        return Clocks(
            offset_ns=(0,) * ranks,
            residual_ns=(0,) * ranks,
            worst_ns=0,
            operations=0,
            alone=tuple(range(ranks)) if ranks > 1 else (),
        )
    zero = int(end.min())
    end = end - zero
    offset, known = _first_guess(operation, rank, end, ranks)
    for _ in range(_ROUNDS):
        true_end = _medians(operation, end - offset[rank])
        refined = np.where(known, _medians(rank, end - true_end[operation], ranks), 0)
        if (refined == offset).all():
            break
        offset = refined
    offset = np.where(known, offset - offset[np.flatnonzero(known)[0]], 0)
    aligned = known[rank]
    end -= offset[rank]
    end -= _medians(operation, end)[operation]
    distance = np.abs(end) * aligned
    residual = np.where(known, _medians(rank, distance, ranks), 0)
    return Clocks(
        offset_ns=tuple(offset.tolist()),
        residual_ns=tuple(residual.tolist()),
        worst_ns=int(distance.max()),
        operations=int(np.count_nonzero(np.bincount(operation[aligned]))),
        alone=tuple(np.flatnonzero(~known).tolist()),
    )


def _first_guess(operation: Column, rank: Column, end: I64, ranks: int) -> tuple[I64, Mask]:
    """Offsets spread outwards from the rank with most observations, through the operations that ranks share."""
    offset = np.zeros(ranks, np.int64)
    known = np.zeros(ranks, bool)
    known[np.bincount(rank, minlength=ranks).argmax()] = True
    while True:
        sure = known[rank]
        reached = np.zeros(int(operation.max()) + 1, bool)
        reached[operation[sure]] = True
        true_end = np.zeros(len(reached), np.int64)
        true_end[reached] = _medians(numbered(operation[sure])[0], (end - offset[rank])[sure])
        fresh = ~sure & reached[operation]
        if not fresh.any():
            return offset, known
        guess = _medians(rank[fresh], (end - true_end[operation])[fresh], ranks)
        newly = np.unique(rank[fresh])
        offset[newly] = guess[newly]
        known[newly] = True


def _medians(group: Column, value: I64, groups: int | None = None) -> I64:
    """Median of the values of each group number (0 for an empty group); of two middle values the mean, rounded."""
    count = groups if groups is not None else int(group.max()) + 1
    ordered = _sorted_within(group, value)
    sizes = np.bincount(group, minlength=count)
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    has = sizes > 0
    low = ordered[np.minimum(first + (sizes - 1) // 2, len(ordered) - 1)]
    high = ordered[np.minimum(first + sizes // 2, len(ordered) - 1)]
    return np.where(has, low + (high - low) // 2, 0)


def _sorted_within(group: Column, value: I64) -> I64:
    """The values in order of group, and ascending within each."""
    least, span = int(value.min()), int(value.max()) - int(value.min()) + 1
    if span * (int(group.max()) + 1) >= 2**63:
        return value[np.lexsort((value, group))]
    # One sort of numbers is ten times faster than two sorts of indices; in place, as there may be many.
    key = group.astype(np.int64)
    key *= span
    key += value
    key -= least
    key.sort()
    key %= span
    key += least
    return key
