"""Which steps of a process run with a change and which without: short blocks in turns, in pairs of random order.

What slows a machine down for a while slows neighbours down alike, so a pair has several short blocks each way rather
than a long one; which way begins is drawn for each pair.

The plan follows from its numbers alone, so all ranks of a job and the process that watches them agree on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

WARM_UP = 5  # steps each way before anything is timed, without the change first
DROPPED = 1  # first steps of a block: they pay for the switch


@dataclass(frozen=True, kw_only=True)
class BlockPlan:
    """Steps count from 1."""

    seed: int
    first: int  # step of the first pair
    kept: int  # steps of a block that count
    turns: int = 1  # blocks of a pair each way
    begun: int = 1  # the step with which the trial of this change began

    @property
    def block(self) -> int:
        return DROPPED + self.kept

    @property
    def pair(self) -> int:
        """Steps of a pair."""
        return 2 * self.turns * self.block

    def is_changed(self, step: int) -> bool:
        if step < self.first:
            return warms_up_changed(step - self.begun + 1)
        pair, at = divmod(step - self.first, self.pair)
        return self._changed_first(pair) ^ bool(at // self.block % 2)

    def last(self, pair: int) -> int:
        """The last step of this pair."""
        return self.first + (pair + 1) * self.pair - 1

    def counted(self, pair: int) -> tuple[list[int], list[int]]:
        """The steps of a pair that count, without and with the change."""
        begins = range(self.first + pair * self.pair, self.last(pair) + 1, self.block)
        blocks = [range(begin + DROPPED, begin + self.block) for begin in begins]
        earlier, later = ([step for block in blocks[at::2] for step in block] for at in (0, 1))
        return (later, earlier) if self._changed_first(pair) else (earlier, later)

    def _changed_first(self, pair: int) -> bool:
        return Random(self.seed * 1_000_003 + pair).random() < 0.5


def warms_up_changed(step: int) -> bool:
    """True of a step before the first pair that runs with the change, counted from the beginning of the trial."""
    return WARM_UP < step <= 2 * WARM_UP
