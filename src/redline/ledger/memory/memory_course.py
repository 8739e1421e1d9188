"""How the accounts of a device's memory went over time: at most a few hundred moments, the fullest of each stretch."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from redline.ledger.memory.allocations import AllocationTable
from redline.ledger.memory.attribution import ACCOUNTS
from redline.ledger.memory.memory_accounts import MemoryAccount

I64 = NDArray[np.int64]
MOST_MOMENTS = 400


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
