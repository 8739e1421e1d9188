"""RL-M12: a training job leaves much of its accelerator's memory unused: the batch could be larger."""

from collections.abc import Iterator

from redline.ledger.memory.causes.cause import FullMemory, MemoryCause, MemoryRule
from redline.numerics import Numerics

_USABLE = 0.9  # of the device: the context, NCCL and fragmentation need the rest
_LEAST_TIMES = 2.0  # as large a batch


def find(full: FullMemory) -> Iterator[MemoryCause]:
    """What grows with the batch may take all that is free; weights, gradients and states stay."""
    device = full.device
    if device.is_host or device.failure is not None or not full.trains:
        return
    free = _USABLE * full.capacity_bytes - device.peak.reserved_bytes
    times = 1 + free / max(full.positions_bytes, 1)
    if full.capacity_bytes and times >= _LEAST_TIMES:
        yield MemoryCause(code=RULE.code, saves_bytes=0, figures={"free_bytes": free, "times": times})


RULE = MemoryRule(code="RL-M12", numerics=Numerics.SEMANTICS, find=find)
