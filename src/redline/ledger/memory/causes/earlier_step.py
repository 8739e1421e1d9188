"""RL-M10: outputs or the graph of the step before are still there while the next one fills the memory."""

from collections.abc import Iterator

from redline.ledger.memory.causes.cause import FullMemory, MemoryCause, MemoryRule
from redline.numerics import Numerics

_LEAST = 0.05  # of what is reserved


def find(full: FullMemory) -> Iterator[MemoryCause]:
    """What nobody ever lets go is growth."""
    evidence = full.device.evidence
    share = evidence.left_over_bytes / max(full.device.peak.reserved_bytes, 1)
    if share >= _LEAST:
        yield MemoryCause(
            code=RULE.code,
            saves_bytes=evidence.left_over_bytes,
            site=evidence.left_over_site,
            figures={"share": share},
        )


RULE = MemoryRule(code="RL-M10", numerics=Numerics.BITWISE, find=find)
