"""Where a process of the job stands: its slot of the shared memory, and what it was told."""

from __future__ import annotations

import os

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
