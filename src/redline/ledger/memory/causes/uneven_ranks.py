"""RL-M08: one rank holds far more than the others, and limits them all."""

from collections.abc import Iterator

from redline.ledger.memory.causes.cause import FullMemory, MemoryCause, MemoryRule
from redline.numerics import Numerics


def find(full: FullMemory) -> Iterator[MemoryCause]:
    if full.is_uneven:
        usual_bytes = full.device.peak.live_bytes - full.more_bytes
        figures = {"usual_bytes": usual_bytes, "ranks": len(full.others) + 1}
        yield MemoryCause(code=RULE.code, saves_bytes=round(full.more_bytes), figures=figures)


RULE = MemoryRule(code="RL-M08", numerics=Numerics.REASSOCIATION, find=find)
