"""Which running task takes far longer than the others, so that a second start is worth a free process.

The rule: nothing waits to be started, at least 3 tasks have finished, and the task has run for more than 10 s and for
more than 4 times as long as a file of its size takes (the median time per byte of the tasks that finished). It is
started a second time, once; the first of the two to finish wins, and the other is ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

_SMALLEST_BYTES = 1_000_000  # smaller files take as long as this one: opening them is most of the work


@dataclass(kw_only=True)
class Pace:
    """How long finished tasks took, and which running one is behind that."""

    sizes_bytes: Sequence[int]  # of every file
    floor_s: float = 10.0
    factor: float = 4.0
    enough: int = 3
    _s_per_byte: list[float] = field(default_factory=list)

    def finished(self, index: int, took_s: float) -> None:
        self._s_per_byte.append(took_s / self._size_bytes(index))

    def patience_s(self, index: int) -> float:
        """For how long a task on this file may run before it is a straggler."""
        if len(self._s_per_byte) < self.enough:
            return float("inf")
        return max(self.floor_s, self.factor * median(self._s_per_byte) * self._size_bytes(index))

    def _size_bytes(self, index: int) -> int:
        return max(self.sizes_bytes[index], _SMALLEST_BYTES)
