"""RL-M05: gradients of the step before are still there while the forward pass fills the memory."""

from collections.abc import Iterator

from redline.analysis.memory.causes.cause import FullMemory, MemoryCause, MemoryRule, account_cause
from redline.analysis.memory.memory_accounts import MemoryAccount
from redline.analysis.rank.host_phases import Phase
from redline.numerics import Numerics

_LEAST = 0.05  # of what is reserved


def find(full: FullMemory) -> Iterator[MemoryCause]:
    """Where gradients are added up over several batches, they are needed."""
    if full.device.peak_phase == Phase.FORWARD and not full.device.accumulates:
        yield from account_cause(full, RULE.code, MemoryAccount.GRADIENTS, _LEAST)


RULE = MemoryRule(code="RL-M05", numerics=Numerics.BITWISE, find=find)
