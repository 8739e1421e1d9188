"""RL-M02: a call site adds memory in every step, and nobody frees it."""

from collections.abc import Iterator

from redline.ledger.memory.causes.cause import FullMemory, MemoryCause, MemoryRule
from redline.numerics import Numerics


def find(full: FullMemory) -> Iterator[MemoryCause]:
    for growth in full.device.growth:
        yield MemoryCause(
            code=RULE.code,
            saves_bytes=growth.held_bytes,
            site=growth.site,
            figures={"bytes_per_step": growth.bytes_per_step, "steps": growth.steps},
        )


RULE = MemoryRule(code="RL-M02", numerics=Numerics.BITWISE, find=find)
