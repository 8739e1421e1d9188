"""Which steps of a process run with a change and which without: pairs of neighbouring blocks in random order.

The plan follows from its numbers alone, so all ranks of a job and the process that watches them agree on it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from random import Random

TYPE_CHECKING = False  # this runs in the user's process: it imports next to nothing
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


@dataclass(frozen=True, kw_only=True)
class BlockPlan:
    """Steps count from 1. First both ways are warmed up, then come the pairs."""

    seed: int
    warm_up: int  # steps each way before the first pair, without the change first
    dropped: int  # first steps of a block that do not count
    kept: int  # steps of a block that count
    pairs: int

    @property
    def block(self) -> int:
        return self.dropped + self.kept

    @property
    def first(self) -> int:
        """The first step of the first pair."""
        return 2 * self.warm_up + 1

    @property
    def last(self) -> int:
        """The last step that has a meaning."""
        return self.first + 2 * self.pairs * self.block - 1

    def is_changed(self, step: int) -> bool:
        """Whether this step runs with the change."""
        if step < self.first:
            return step > self.warm_up
        pair, at = divmod(step - self.first, 2 * self.block)
        return self._changed_first(pair) ^ (at >= self.block)

    def counted(self, pair: int) -> tuple[range, range]:
        """The steps of a pair that count, without and with the change."""
        first = self.first + 2 * pair * self.block
        blocks = [range(first + at + self.dropped, first + at + self.block) for at in (0, self.block)]
        return (blocks[1], blocks[0]) if self._changed_first(pair) else (blocks[0], blocks[1])

    def _changed_first(self, pair: int) -> bool:
        return Random(self.seed * 1_000_003 + pair).random() < 0.5

    def to_settings(self) -> dict[str, int]:
        return asdict(self)

    @classmethod
    def from_settings(cls, values: Mapping[str, Any]) -> BlockPlan:
        return cls(**values)
