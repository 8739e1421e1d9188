"""RL-M04: logits of all tokens are there at once, often in 32 bits and twice."""

from collections.abc import Iterator

from redline.ledger.memory.causes.cause import FullMemory, MemoryCause, MemoryRule, account_cause
from redline.ledger.memory.memory_accounts import MemoryAccount
from redline.numerics import Numerics

_LEAST = 0.1  # of what is reserved


def find(full: FullMemory) -> Iterator[MemoryCause]:
    yield from account_cause(full, RULE.code, MemoryAccount.LOGITS, _LEAST)


RULE = MemoryRule(code="RL-M04", numerics=Numerics.REASSOCIATION, find=find)
