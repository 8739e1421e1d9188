"""What stays from step to step: call sites whose blocks of every step are still in use when the recording ends."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from redline.ledger.memory.allocations import AllocationTable
from redline.ledger.memory.attribution import ACCOUNTS
from redline.ledger.memory.memory_accounts import MemoryAccount

I64 = NDArray[np.int64]
_FEWEST_STEPS = 3  # in a row, of which all is still there
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
    first step does not count: what runs as a recording begins is named by another line than when it is called. Nor does
    the last: what the next step lets go is still there."""
    steps = len(step_ends) - 1
    if steps < _FEWEST_STEPS + 2:
        return ()
    kept = defaultdict[str, list[int]](lambda: [0] * steps)
    by_account = defaultdict[str, Counter[int]](Counter)
    step = np.searchsorted(step_ends, table.born, side="left") - 1  # that it was born in; -1: before the first
    is_meant = ~np.isin(account, [ACCOUNTS.index(name) for name in _NOT_GROWTH])
    is_meant &= (step >= 0) & (step < steps) & (table.died > step_ends[-1])
    for row in np.flatnonzero(is_meant).tolist():
        size_bytes = int(table.size_bytes[row])
        kept[sites[row]][int(step[row])] += size_bytes
        by_account[sites[row]][int(account[row])] += size_bytes
    found = [
        MemoryGrowth(
            site=site,
            account=ACCOUNTS[by_account[site].most_common(1)[0][0]],
            bytes_per_step=int(np.median(amounts[1:-1])),
            steps=len(amounts[1:-1]),
            held_bytes=sum(amounts),
        )
        for site, amounts in kept.items()
        if min(amounts[1:-1]) >= _LEAST_BYTES
    ]
    return tuple(sorted(found, key=lambda growth: -growth.bytes_per_step))
