"""How the accounts of a memory went over time, and what stays: call sites whose blocks are in use step after step."""

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from redline.ledger.accounts import MemoryAccount
from redline.ledger.memory.allocations import AllocationTable
from redline.ledger.memory.attribution import ACCOUNTS
from redline.values import dataclass

I64 = NDArray[np.int64]
MOST_MOMENTS = 400
_FEWEST_STEPS = 3  # in a row, of which all is still there
_LEAST_BYTES = 1 << 10  # per step
_NOT_GROWTH = (MemoryAccount.PARAMETERS, MemoryAccount.OPTIMIZER_STATES)


@dataclass(frozen=True, kw_only=True)
class MemoryCourse:
    """The accounts at chosen moments, in the order of time."""

    at_ns: tuple[int, ...]  # since the first event; the number of the event where the file has no times
    accounts: dict[MemoryAccount, tuple[int, ...]]  # bytes at each moment; accounts that hold nothing are left out
    has_times: bool


def memory_course(
    table: AllocationTable, account: I64, at_ns: I64, reserved_bytes: I64, other_bytes: int = 0
) -> MemoryCourse:
    """`at_ns` of each event; `reserved_bytes` after each, and first before any."""
    count = len(at_ns)
    has_times = bool(count) and int(at_ns.max()) > int(at_ns.min())
    since = np.maximum.accumulate(at_ns - at_ns[0]) if has_times else np.arange(count)
    live = _held(table, np.ones(len(table), bool), count) + other_bytes
    moments = fullest(since, live[1:]) if count else np.array([-1])
    sums: dict[MemoryAccount, I64] = {
        name: _held(table, account == number, count)[moments + 1]
        for number, name in enumerate(ACCOUNTS)
        if name is not MemoryAccount.CACHED and (account == number).any()
    }
    if other_bytes:
        sums[MemoryAccount.UNKNOWN] = sums.get(MemoryAccount.UNKNOWN, np.zeros(len(moments), np.int64)) + other_bytes
    sums[MemoryAccount.CACHED] = reserved_bytes[moments + 1] - live[moments + 1]
    return MemoryCourse(
        at_ns=tuple((since[moments] if count else np.zeros(1, np.int64)).tolist()),
        accounts={name: tuple(values.tolist()) for name, values in sums.items() if values.any()},
        has_times=has_times,
    )


def _held(table: AllocationTable, chosen: NDArray[np.bool_], count: int) -> I64:
    """Bytes of the chosen allocations after each event, and first before any."""
    steps = np.zeros(count + 2, np.int64)
    np.add.at(steps, table.born[chosen] + 1, table.size_bytes[chosen])
    np.add.at(steps, table.died[chosen] + 1, -table.size_bytes[chosen])
    held: I64 = np.cumsum(steps[:-1])
    return held


def fullest(since: I64, live: I64) -> I64:
    """Of each stretch of time the moment at which most was in use."""
    stretch = since * MOST_MOMENTS // (int(since[-1]) + 1)
    order = np.lexsort((-live, stretch))
    first = np.flatnonzero(np.append(True, np.diff(stretch[order]) > 0))
    moments: I64 = order[first]
    return moments


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
