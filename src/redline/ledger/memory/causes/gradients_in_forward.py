"""RL-M05: gradients of the step before are still there while a forward and a backward pass fill the memory."""

from collections.abc import Iterator

from redline.ledger.memory.causes.cause import FullMemory, MemoryCause, MemoryRule
from redline.numerics import Numerics

_LEAST = 0.05  # of what is reserved


def find(full: FullMemory) -> Iterator[MemoryCause]:
    """Where gradients are added up over several batches, they are needed."""
    stale, reserved = full.device.evidence.stale_gradients_bytes, full.device.peak.reserved_bytes
    if stale >= _LEAST * max(reserved, 1) and not full.device.accumulates:
        yield MemoryCause(code=RULE.code, saves_bytes=stale, figures={"share": stale / reserved})


RULE = MemoryRule(code="RL-M05", numerics=Numerics.BITWISE, find=find)
