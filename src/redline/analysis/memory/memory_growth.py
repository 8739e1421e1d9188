"""What stays from step to step: call sites whose blocks of every step are still in use a whole step later."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from redline.analysis.memory.allocations import AllocationTable
from redline.analysis.memory.attribution import ACCOUNTS
from redline.analysis.memory.memory_accounts import MemoryAccount

I64 = NDArray[np.int64]
_FEWEST_STEPS = 3  # in a row, each with as much a step later
_LEAST_BYTES = 1 << 10  # per step
_NOT_GROWTH = (MemoryAccount.PARAMETERS, MemoryAccount.OPTIMIZER_STATES)


@dataclass(frozen=True, kw_only=True)
class MemoryGrowth:
    """Memory that one call site adds in every step and nobody frees."""

    site: str
    account: MemoryAccount
    bytes_per_step: int  # the median
    steps: int  # in which it was seen
    held_bytes: int  # in the end


def memory_growth(
    table: AllocationTable, account: I64, sites: Sequence[str], step_ends: I64
) -> tuple[MemoryGrowth, ...]:
    """`step_ends`: the moment at the end of each step, and first that of the beginning; the largest growth first. The
    first step does not count: what runs as a recording begins is named by another line than when it is called."""
    if len(step_ends) < _FEWEST_STEPS + 3:
        return ()
    left = defaultdict[str, list[int]](lambda: [0] * (len(step_ends) - 2))
    held = defaultdict[str, Counter[int]](Counter)  # by account
    step = np.searchsorted(step_ends, table.born, side="left") - 1  # that it was born in; -1: before the first
    last = len(step_ends) - 2  # whose blocks nobody has seen a step later
    is_meant = ~np.isin(account, [ACCOUNTS.index(name) for name in _NOT_GROWTH])
    stays = is_meant & (step >= 0) & (step < last)
    stays &= table.died > step_ends[np.clip(step + 2, 0, len(step_ends) - 1)]
    for row in np.flatnonzero(stays).tolist():
        left[sites[row]][int(step[row])] += int(table.size_bytes[row])
    for row in np.flatnonzero(is_meant & (step >= 0) & (table.died > step_ends[-1])).tolist():
        held[sites[row]][int(account[row])] += int(table.size_bytes[row])
    found = [
        MemoryGrowth(
            site=site,
            account=ACCOUNTS[held[site].most_common(1)[0][0]],
            bytes_per_step=int(np.median(amounts)),
            steps=len(amounts),
            held_bytes=held[site].total(),
        )
        for site, (_, *amounts) in left.items()
        if min(amounts) >= _LEAST_BYTES and held[site]
    ]
    return tuple(sorted(found, key=lambda growth: -growth.bytes_per_step))
