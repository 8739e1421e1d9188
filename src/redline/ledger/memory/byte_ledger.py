"""The ledger of bytes of a device at a moment: every byte that the allocator holds in exactly one account."""

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from redline.ledger.accounts import MemoryAccount
from redline.ledger.memory.allocations import BEFORE, MemoryHistory
from redline.ledger.memory.attribution import ACCOUNTS, AttributedMemory
from redline.trace.snapshot.snapshot import NO_STACK, AllocatorAction
from redline.values import dataclass

I64 = NDArray[np.int64]


class LedgerError(ValueError):
    """A promise of ledgers does not hold: bytes in two accounts, or in none."""


@dataclass(frozen=True, kw_only=True)
class MemoryHolder:
    """All blocks of an account that one line of code allocated."""

    account: MemoryAccount
    site: str  # "" without a stack
    size_bytes: int
    blocks: int


@dataclass(frozen=True, kw_only=True)
class ByteLedger:
    """What a device's memory holds once an event is done."""

    moment: int  # number of the event, -1 before the first
    reserved_bytes: int  # what the allocator has from the driver
    accounts: dict[MemoryAccount, int]  # add up to what is reserved
    holders: tuple[MemoryHolder, ...]  # the largest first; without what is cached
    holes: tuple[int, ...]  # sizes of what is cached but free, the largest first
    rounding_bytes: int  # in the accounts, beyond what was asked for
    no_stack_bytes: int  # blocks whose stack is not known
    before_bytes: int  # of these, blocks from before the history began

    @property
    def live_bytes(self) -> int:
        return self.reserved_bytes - self.accounts[MemoryAccount.CACHED]


def byte_ledger(memory: AttributedMemory, moment: int) -> ByteLedger:
    """Checked against the promise of ledgers: LedgerError where bytes are in two accounts, or in none."""
    history = memory.history
    rows = history.allocations.at(moment)
    table = history.allocations.take(rows)
    accounts = memory.account[rows]
    holes = _holes(history, moment, table.address, table.size_bytes)
    sums = {name: int(table.size_bytes[accounts == number].sum()) for number, name in enumerate(ACCOUNTS)}
    sums[MemoryAccount.CACHED] = sum(holes)
    has_no_stack = table.stack == NO_STACK
    ledger = ByteLedger(
        moment=moment,
        reserved_bytes=int(history.reserved_bytes()[moment + 1]),
        accounts=sums,
        holders=holders_of(accounts, [memory.site(row) for row in rows.tolist()], table.size_bytes),
        holes=holes,
        rounding_bytes=int((table.size_bytes - table.requested_bytes).sum()),
        no_stack_bytes=int(table.size_bytes[has_no_stack].sum()),
        before_bytes=int(table.size_bytes[has_no_stack & (table.born == BEFORE)].sum()),
    )
    check_ledger(ledger)
    return ledger


def holders_of(accounts: I64, sites: Sequence[str], size_bytes: I64) -> tuple[MemoryHolder, ...]:
    """Of blocks with these accounts (as places in ACCOUNTS), call sites and sizes."""
    sizes, counts = defaultdict[tuple[int, str], int](int), Counter[tuple[int, str]]()
    for account, site, size in zip(accounts.tolist(), sites, size_bytes.tolist(), strict=True):
        sizes[account, site] += size
        counts[account, site] += 1
    made = [
        MemoryHolder(account=ACCOUNTS[account], site=site, size_bytes=size, blocks=counts[account, site])
        for (account, site), size in sizes.items()
    ]
    return tuple(sorted(made, key=lambda holder: (-holder.size_bytes, holder.site, holder.account)))


def _holes(history: MemoryHistory, moment: int, address: I64, size: I64) -> tuple[int, ...]:
    """Gaps between blocks inside of what the driver gave; segments that lie side by side are not one.

    The segments of a moment are those of the end, with what the driver gave since taken off and what it got back added.
    """
    events, segments = history.events, history.segments
    later = events.take(slice(moment + 1, None))
    gave = later.take(np.isin(later.action, (AllocatorAction.SEGMENT_ALLOC, AllocatorAction.SEGMENT_MAP)))
    took = later.take(np.isin(later.action, (AllocatorAction.SEGMENT_FREE, AllocatorAction.SEGMENT_UNMAP)))
    starts = np.concatenate([segments.address, took.address, gave.address, address])
    sizes = np.concatenate([segments.size_bytes, took.size_bytes, gave.size_bytes, size])
    signs = np.repeat([1, 1, -1, -1], [len(segments), len(took), len(gave), len(address)])
    points, places = np.unique(np.concatenate([starts, starts + sizes]), return_inverse=True)
    free = np.zeros(len(points), np.int64)
    np.add.at(free, places, np.concatenate([signs, -signs]))
    free = np.cumsum(free)  # from each point to the next: 1 reserved and not in use, 0 in use or not reserved
    if ((free != 0) & (free != 1)).any():
        raise LedgerError("blocks in use overlap, or lie outside of what is reserved")
    is_free = free[:-1] == 1
    first = np.isin(points[:-1], _segment_starts(history))
    begins = is_free & (np.append(True, ~is_free[:-1])[: len(is_free)] | first)
    group = np.cumsum(begins) - 1
    lengths = np.zeros(int(begins.sum()), np.int64)
    np.add.at(lengths, group[is_free], np.diff(points)[is_free])
    return tuple(sorted((int(length) for length in lengths), reverse=True))


def _segment_starts(history: MemoryHistory) -> I64:
    """Of segments that cannot grow into one another: those of cudaMalloc, at any moment."""
    plain = history.segments.address[history.segments.is_expandable == 0]
    is_segment = np.isin(history.events.action, (AllocatorAction.SEGMENT_ALLOC, AllocatorAction.SEGMENT_FREE))
    return np.concatenate([plain, history.events.address[is_segment]])


def check_ledger(ledger: ByteLedger) -> None:
    """LedgerError where a promise of ledgers does not hold."""
    total = sum(ledger.accounts.values())
    if total != ledger.reserved_bytes:
        raise LedgerError(f"accounts of {total:,} bytes where {ledger.reserved_bytes:,} are reserved")
    if sum(holder.size_bytes for holder in ledger.holders) != ledger.live_bytes:
        raise LedgerError("call sites do not add up to what is in use")
    if min(ledger.accounts.values()) < 0:
        raise LedgerError("an account below zero")
