"""RL-M08: one rank holds far more than the others, and limits them all."""

from collections.abc import Iterator
from statistics import median

from redline.analysis.memory.causes.cause import FullMemory, MemoryCause, MemoryRule
from redline.numerics import Numerics

_LEAST = 0.1  # of what the median of the others has in use


def find(full: FullMemory) -> Iterator[MemoryCause]:
    if not full.others:
        return
    usual = median(device.peak.live_bytes for device in full.others)
    more = full.device.peak.live_bytes - usual
    if more >= _LEAST * usual:
        figures = {"usual_bytes": usual, "ranks": len(full.others) + 1}
        yield MemoryCause(code=RULE.code, saves_bytes=round(more), figures=figures)


RULE = MemoryRule(code="RL-M08", numerics=Numerics.REASSOCIATION, find=find)
