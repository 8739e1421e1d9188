"""Memory for a window. A limit that the process comes near costs the window, never the job.

Torch's profiler cannot be refused memory: a thread of it that gets none for its variables aborts the process. So a
window opens only far from every limit, and is closed when the job has come nearer. To close it takes memory as well,
which is set aside while the window is open, as address space that nothing is written to.
"""

from __future__ import annotations

from mmap import mmap

from redline.capture.process import resident_bytes, room_bytes

_LEAST_BYTES = 256 << 20  # that are left where a window opens
_LEFT_BYTES = 64 << 20  # and at each of its steps
_RESERVE_BYTES = 32 << 20
_SHARE = 4  # to close a window takes about as much again as its events, for some moments twice


class NoRoom(Exception):  # noqa: N818 (an outcome)
    """The process is too near to a limit of its memory."""


class WindowRoom:
    """What the window may take."""

    def __init__(self, most_bytes: int) -> None:
        self._allowed_bytes = most_bytes
        self._most_bytes = 0
        self._resident_bytes = 0
        self._reserve: mmap | None = None

    def take(self) -> None:
        """When a window is about to open. Raises NoRoom."""
        room = room_bytes()
        if room < _LEAST_BYTES:
            raise NoRoom(f"{max(room, 0) >> 20} MiB of memory are left, and a window needs {_LEAST_BYTES >> 20}")
        self._resident_bytes = resident_bytes()
        self._most_bytes = min(self._allowed_bytes, room // _SHARE)
        self._reserve = mmap(-1, _RESERVE_BYTES)

    def check(self) -> None:
        """Raise NoRoom where a limit has come near since."""
        if room_bytes() < _LEFT_BYTES:
            raise NoRoom("a limit of its memory came near while a window was about to open")

    def why_over(self) -> str:
        """Why the window has to be closed now, for which there is some memory then; empty where it may go on."""
        grown_bytes = resident_bytes() - self._resident_bytes
        if grown_bytes > self._allowed_bytes:
            return "it took more memory than --max-memory allows"
        if grown_bytes <= self._most_bytes and room_bytes() >= _LEFT_BYTES:
            return ""
        self.give_back()
        return "the process comes near its memory limit"

    def give_back(self) -> None:
        """The window is about to be closed."""
        reserve, self._reserve = self._reserve, None
        if reserve is not None:
            reserve.close()
