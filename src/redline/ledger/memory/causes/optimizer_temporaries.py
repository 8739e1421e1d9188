"""RL-M06: the peak is in the optimizer's step, which works on copies of all parameters at once."""

from collections.abc import Iterator

from redline.ledger.memory.causes.cause import FullMemory, MemoryCause, MemoryRule, account_cause
from redline.ledger.memory.memory_accounts import MemoryAccount
from redline.ledger.rank.host_phases import Phase
from redline.numerics import Numerics

_LEAST = 0.05  # of what is reserved
_COPIES = 0.5  # of the parameters: fewer are those of a few at a time


def find(full: FullMemory) -> Iterator[MemoryCause]:
    temporaries, parameters = full.held(MemoryAccount.TEMPORARIES), full.held(MemoryAccount.PARAMETERS)
    if full.device.evidence.phase == Phase.OPTIMIZER and temporaries >= _COPIES * parameters:
        yield from account_cause(full, RULE.code, MemoryAccount.TEMPORARIES, _LEAST)


RULE = MemoryRule(code="RL-M06", numerics=Numerics.REASSOCIATION, find=find)
