"""RL-M07: much of what the allocator has reserved is free, in pieces that no request fits into."""

from collections.abc import Iterator

from redline.ledger.memory.causes.cause import FullMemory, MemoryCause, MemoryRule, account_cause
from redline.ledger.memory.memory_accounts import MemoryAccount
from redline.numerics import Numerics

_LEAST = 0.1  # of what is reserved


def find(full: FullMemory) -> Iterator[MemoryCause]:
    yield from account_cause(full, RULE.code, MemoryAccount.CACHED, _LEAST)


RULE = MemoryRule(code="RL-M07", numerics=Numerics.BITWISE, find=find)
