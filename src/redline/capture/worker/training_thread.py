"""The thread that is watched."""

from __future__ import annotations

from _thread import _local, get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class _AtEnd:
    """Lives as long as the thread in whose storage it is; the thread itself lets go of it, as the last it does."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    def __del__(self) -> None:
        self._then()


class TrainingThread:
    """The one that imports torch, until an optimizer steps in another, and if that ends, in a third.

    In processes that the script forks, there is none.
    """

    def __init__(self) -> None:
        self.thread = self._first = get_ident()
        self._storage = _local()

    def move(self, ended: Callable[[], None]) -> None:
        """To the thread that trains: Ray Train and others do that beside the main thread. Tell when it ends."""

        def end() -> None:
            ended()
            self.leave()

        if self.thread != get_ident():
            self.thread = get_ident()
            if self.thread != self._first:
                self._storage.at_end = _AtEnd(end)

    def leave(self) -> None:
        self.thread = 0
