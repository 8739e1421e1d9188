"""RL-M09: every rank keeps the same optimizer states."""

from collections.abc import Iterator

from redline.ledger.memory.causes.cause import FullMemory, MemoryCause, MemoryRule
from redline.ledger.memory.memory_accounts import MemoryAccount
from redline.numerics import Numerics

_LEAST = 0.1  # of what is reserved
_ALIKE = 0.001
_WHOLE = 1.5  # times the parameters: a shard of Adam's states, on two ranks or more, is at most as large as these


def find(full: FullMemory) -> Iterator[MemoryCause]:
    """Ranks that hold whole parameters and states of them, as many as each other."""
    states, parameters = full.held(MemoryAccount.OPTIMIZER_STATES), full.held(MemoryAccount.PARAMETERS)
    alike = [
        device
        for device in full.others
        if abs(device.shown.accounts[MemoryAccount.OPTIMIZER_STATES] - states) <= _ALIKE * states
    ]
    is_replicated = alike and len(alike) == len(full.others) and not full.device.is_sharded
    if is_replicated and 0 < _WHOLE * parameters <= states and full.share(states) >= _LEAST:
        ranks = len(alike) + 1
        yield MemoryCause(
            code=RULE.code, saves_bytes=states * (ranks - 1) // ranks, figures={"ranks": ranks, "states_bytes": states}
        )


RULE = MemoryRule(code="RL-M09", numerics=Numerics.REASSOCIATION, find=find)
