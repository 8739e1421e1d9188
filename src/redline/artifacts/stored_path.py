"""The path of a file that is not on this machine, as whoever reads and writes files has to know it."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager
from pathlib import Path, PosixPath


class StoredPath(PosixPath):
    """Its text is where the file is; opened, it is a copy on this machine, made when it is asked for.

    `redline.storage` has the one kind that there is: objects of a store. Here is what writing and looking need of it.
    """

    @abstractmethod
    def beginning(self, most_bytes: int) -> bytes:
        """The first bytes, without the rest."""

    @abstractmethod
    def local_part(self) -> AbstractContextManager[Path]:
        """A name on this machine for what is to be uploaded. The file there is gone after the block."""

    @abstractmethod
    def upload(self, part: Path) -> None:
        """Put a file of this machine there: whole or not at all. OutputError where that fails."""
