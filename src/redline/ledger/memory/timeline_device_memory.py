"""The memory of a device from a timeline that torch exported: its categories become accounts."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from redline.errors import InputError
from redline.ledger.memory.byte_ledger import ByteLedger, MemoryHolder, check_ledger
from redline.ledger.memory.device_memory import DeviceMemory
from redline.ledger.memory.memory_accounts import MemoryAccount
from redline.ledger.memory.memory_course import MemoryCourse, fullest
from redline.trace.memory_timeline import CATEGORIES, read_memory_timeline

I64 = NDArray[np.int64]
_ACCOUNTS = {
    "parameter": MemoryAccount.PARAMETERS,
    "optimizer state": MemoryAccount.OPTIMIZER_STATES,
    "input": MemoryAccount.INPUTS,
    "temporary": MemoryAccount.TEMPORARIES,
    "activation": MemoryAccount.ACTIVATIONS,
    "gradient": MemoryAccount.GRADIENTS,
    "autograd detail": MemoryAccount.BACKWARD,
    "none": MemoryAccount.UNKNOWN,
}


def timeline_device_memory(path: Path) -> DeviceMemory:
    """InputError where more is freed than there was."""
    changes = read_memory_timeline(path)
    held = {
        _ACCOUNTS[name]: np.cumsum(np.where(changes.category == number, changes.bytes, 0))
        for number, name in enumerate(CATEGORIES)
    }
    live: I64 = np.sum(list(held.values()), axis=0)
    if min(int(sizes.min()) for sizes in held.values()) < 0:
        raise InputError(f"{path}: a memory timeline in which more is freed than there was.")
    recorded = changes.at_ns >= 0  # what was there before has no time
    begin_ns = int(changes.at_ns[recorded][0]) if recorded.any() else 0
    since_ns = np.maximum(changes.at_ns - begin_ns, 0)
    return DeviceMemory(
        file=str(path),
        device=0,
        events=len(changes),
        span_us=int(since_ns[-1]) // 1000,
        peak=_ledger(held, live, int(np.argmax(live))),
        failure=None,
        failures=0,
        history_is_whole=True,
        contradictions=0,
        problems=(),
        course=_course(held, live, since_ns),
        is_trace=True,
        has_sites=False,
    )


def _ledger(held: dict[MemoryAccount, I64], live: I64, moment: int) -> ByteLedger:
    sums = {account: int(held[account][moment]) if account in held else 0 for account in MemoryAccount}
    holders = [
        MemoryHolder(account=account, site="", size_bytes=size, blocks=0) for account, size in sums.items() if size
    ]
    ledger = ByteLedger(
        moment=moment,
        reserved_bytes=int(live[moment]),
        accounts=sums,
        holders=tuple(sorted(holders, key=lambda holder: -holder.size_bytes)),
        holes=(),
        rounding_bytes=0,
        no_stack_bytes=0,
        before_bytes=0,
    )
    check_ledger(ledger)
    return ledger


def _course(held: dict[MemoryAccount, I64], live: I64, since_ns: I64) -> MemoryCourse:
    moments = fullest(since_ns, live)
    return MemoryCourse(
        at_ns=tuple(since_ns[moments].tolist()),
        accounts={account: tuple(sizes[moments].tolist()) for account, sizes in held.items() if sizes.any()},
        has_times=bool(since_ns[-1]),
    )
