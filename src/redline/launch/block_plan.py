"""Which steps of a process run with a change and which without: pairs of neighbouring blocks in random order.

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

    @property
    def block(self) -> int:
        return DROPPED + self.kept

    def is_changed(self, step: int) -> bool:
        """Whether this step runs with the change."""
        if step < self.first:
            return warms_up_changed(step)
        pair, at = divmod(step - self.first, 2 * self.block)
        return self._changed_first(pair) ^ (at >= self.block)

    def last(self, pair: int) -> int:
        """The last step of this pair."""
        return self.first + 2 * (pair + 1) * self.block - 1

    def counted(self, pair: int) -> tuple[range, range]:
        """The steps of a pair that count, without and with the change."""
        first = self.first + 2 * pair * self.block
        blocks = [range(first + at + DROPPED, first + at + self.block) for at in (0, self.block)]
        return (blocks[1], blocks[0]) if self._changed_first(pair) else (blocks[0], blocks[1])

    def _changed_first(self, pair: int) -> bool:
        return Random(self.seed * 1_000_003 + pair).random() < 0.5


def warms_up_changed(step: int) -> bool:
    """Whether a step before the first pair runs with the change."""
    return WARM_UP < step <= 2 * WARM_UP
