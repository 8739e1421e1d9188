"""RL-M11: batches are padded far beyond what they hold, and activations and logits of padding fill the memory."""

from collections.abc import Iterator

from redline.ledger.memory.causes.cause import FullMemory, MemoryCause, MemoryRule
from redline.numerics import Numerics

_LEAST = 0.05  # of what is reserved


def find(full: FullMemory) -> Iterator[MemoryCause]:
    """At most what would be saved if all of it grew with the square of the length."""
    used = full.device.used_share
    most = round(full.positions_bytes * (1 - used**2))
    if full.share(most) >= _LEAST:
        yield MemoryCause(
            code=RULE.code, saves_bytes=most, figures={"share": full.share(most), "padding_share": 1 - used}
        )


RULE = MemoryRule(code="RL-M11", numerics=Numerics.REASSOCIATION, find=find)
