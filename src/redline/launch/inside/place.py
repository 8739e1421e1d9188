"""Where a process of the job stands: its slot of the shared memory, and what it was told."""

from __future__ import annotations

import os

from redline.launch.board import BY_CALLS, KIND, RANK, RESTART, SETTLED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from redline.launch.board import Board, Slot
    from redline.launch.settings import Settings


class Place:
    """This process on the board: its slot, the words that all share, and what it was told."""

    here: Place | None = None  # the one of this process, once it has begun

    def __init__(self, board: Board, number: int, slot: Slot, settings: Settings) -> None:
        self.board = board
        self.number = number
        self.slot = slot
        self.settings = settings
        self.pid = os.getpid()

    def settle(self, rank: int) -> None:
        """The process takes steps, as this rank. Of several with the same number, later ones are as after a restart."""
        words, settings = self.slot.words, self.settings
        words[RANK] = settings.rank = rank
        if words[SETTLED] or not (settings.follow or settings.offspring):
            return
        with self.board.locked():
            words[RESTART] = self._earlier(rank)
            words[SETTLED] = 1
        if words[RESTART] and settings.folder:
            settings.folder += f"/restart-{words[RESTART]}"

    def _earlier(self, rank: int) -> int:
        """Processes that have settled as this rank; 0 where the script has closed our way to see them.

        For one that trains, those that only call a model do not count: they are no ranks then.
        """
        trains = self.slot.words[KIND] != BY_CALLS
        try:
            others = [self.board.slot(number).words for number in range(self.board.slots) if number != self.number]
        except OSError:
            return 0
        settled = [other for other in others if other[SETTLED] and other[RANK] == rank]
        return sum(1 for other in settled if not trains or other[KIND] != BY_CALLS)
