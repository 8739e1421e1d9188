"""The optimizers that have stepped in this process, each with a number of its own."""

from __future__ import annotations

from itertools import count
from weakref import ref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torch.optim.optimizer import Optimizer


class Optimizers:
    """None of them is kept alive: each may hold as much memory as the model. Nor is one compared or hashed."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[ref[Optimizer], int]] = {}
        self._numbers = count(1)
        self._stepped: set[int] = set()  # since somebody asked who did not

    def stepped(self, optimizer: Optimizer) -> int:
        """Its number."""
        key = id(optimizer)
        known = self._known.get(key)
        if known is None or known[0]() is not optimizer:
            known = self._known[key] = ref(optimizer, lambda _: self._forget(key)), next(self._numbers)
        self._stepped.add(key)
        return known[1]

    def skipped(self, keys: Iterable[int]) -> list[int]:
        """Of the optimizers with these ids, those that did not step since this was asked before: their numbers.

        0 for one that never stepped, unless another one did: it may have another one do its work.
        """
        missing = [key for key in keys if key not in self._stepped and (key in self._known or not self._stepped)]
        self._stepped.clear()
        return [self._known[key][1] if key in self._known else 0 for key in missing]

    def _forget(self, key: int) -> None:
        self._known.pop(key, None)
        self._stepped.discard(key)

    def alive(self) -> Iterator[Optimizer]:
        yield from filter(None, [known() for known, _ in self._known.values()])
