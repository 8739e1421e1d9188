"""RL-M03: activations wait for the backward pass that could be computed again in it."""

from collections.abc import Iterator

from redline.analysis.memory.causes.cause import FullMemory, MemoryCause, MemoryRule, account_cause
from redline.analysis.memory.memory_accounts import MemoryAccount
from redline.numerics import Numerics

_LEAST = 0.3  # of what is reserved: below, recomputing all of them is much time for little


def find(full: FullMemory) -> Iterator[MemoryCause]:
    if full.trains:
        yield from account_cause(full, RULE.code, MemoryAccount.ACTIVATIONS, _LEAST)


RULE = MemoryRule(code="RL-M03", numerics=Numerics.BITWISE, find=find)
