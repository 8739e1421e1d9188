"""The optimizers that have stepped in this process, each with a number of its own."""

from __future__ import annotations

from itertools import count
from weakref import ref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch.optim.optimizer import Optimizer


class Optimizers:
    """None of them is kept alive: each may hold as much memory as the model. Nor is one compared or hashed."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[ref[Optimizer], int]] = {}
        self._numbers = count(1)

    def number(self, optimizer: Optimizer) -> int:
        key = id(optimizer)
        known = self._known.get(key)
        if known is not None and known[0]() is optimizer:
            return known[1]
        number = next(self._numbers)
        self._known[key] = ref(optimizer, lambda _: self._known.pop(key, None)), number
        return number

    def alive(self) -> Iterator[Optimizer]:
        yield from filter(None, [known() for known, _ in self._known.values()])
