"""A trace file, open to be read: whatever goes wrong with it is an InputError that names it."""

from io import FileIO
from pathlib import Path

from redline.artifacts import open_ordinary
from redline.errors import InputError, RefusedInputError


class RegularFile(FileIO):
    """A device or a pipe is refused, as it may block, never end, or be gone once it was read."""

    def __init__(self, path: Path) -> None:
        self._shown = path
        try:
            super().__init__(open_ordinary(path), "rb")
        except OSError as error:
            raise InputError(f"{path}: cannot be opened ({error.strerror}).") from error

    def read(self, size: int | None = -1, /) -> bytes:
        try:
            piece = super().read(size)
        except OSError as error:
            raise InputError(f"{self._shown}: reading it failed at byte {self.tell():,} ({error.strerror}).") from error
        if piece is None:  # of the system's own files some wait for more to come
            raise RefusedInputError(f"{self._shown}: has no end, only more to come; not read.")
        return piece
