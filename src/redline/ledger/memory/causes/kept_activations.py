"""RL-M03: activations wait for the backward pass that could be computed again in it."""

from collections.abc import Iterator
from dataclasses import replace

from redline.ledger.memory.causes.cause import FullMemory, MemoryCause, MemoryRule, account_cause
from redline.ledger.memory.memory_accounts import MemoryAccount
from redline.numerics import Numerics

_LEAST = 0.3  # of what is reserved: below, recomputing all of them is much time for little


def find(full: FullMemory) -> Iterator[MemoryCause]:
    """What it costs is one more forward pass, where the time of that is known."""
    costs = {"forward_share": full.device.forward_share} if full.device.forward_share else {}
    if full.trains:
        for cause in account_cause(full, RULE.code, MemoryAccount.ACTIVATIONS, _LEAST):
            yield replace(cause, figures={**cause.figures, **costs})


RULE = MemoryRule(code="RL-M03", numerics=Numerics.BITWISE, find=find)
