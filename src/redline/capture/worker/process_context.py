"""Where a process of the job stands: its slot of the shared memory, and what it was told."""

from __future__ import annotations

import sys
from os import getpid

from redline.capture.shared_state import BY_CALLS, KIND, RANK, RESTART, SETTLED
from redline.capture.worker.exception_origin import tolerated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from redline.capture.settings import Settings
    from redline.capture.shared_state import ProcessSlot, SharedState


def process_group() -> Any:
    """torch.distributed, if the script uses it and got that far; else None."""
    distributed = sys.modules.get("torch.distributed")
    is_there = distributed is not None and distributed.is_available() and distributed.is_initialized()
    return distributed if is_there else None


class ProcessContext:
    """This process: its slot of the shared state, the words that all share, and what it was told."""

    here: ProcessContext | None = None  # the one of this process, once it has begun

    def __init__(self, shared: SharedState, number: int, slot: ProcessSlot, settings: Settings) -> None:
        self.shared = shared
        self.number = number
        self.slot = slot
        self.settings = settings
        self.pid = getpid()

    def is_here(self) -> bool:
        """And not in a process that the script has forked."""
        return getpid() == self.pid

    def others(self) -> list[memoryview[int]]:
        """A copy of the words of every other slot; OSError where the shared state cannot be opened."""
        return [words for number, words in enumerate(self.shared.words()) if number != self.number]

    def settle(self, rank: int) -> None:
        """The process takes steps, as this rank. Of several with the same number, later ones are as after a restart."""
        words, settings = self.slot.words, self.settings
        words[RANK] = settings.rank = rank
        if words[SETTLED] or not (settings.follow or settings.offspring):
            return
        with tolerated(OSError), self.shared.locked():  # unless the script has no file left to open
            words[RESTART] = self._earlier(rank)
            words[SETTLED] = 1
        words[SETTLED] = 1
        if words[RESTART] and settings.folder:
            settings.folder += f"/restart-{words[RESTART]}"

    def _earlier(self, rank: int) -> int:
        """Processes that have settled as this rank.

        For one that trains, those that only call a model do not count: they are no ranks then.
        """
        trains = self.slot.words[KIND] != BY_CALLS
        settled = [other for other in self.others() if other[SETTLED] and other[RANK] == rank]
        return sum(1 for other in settled if not trains or other[KIND] != BY_CALLS)
