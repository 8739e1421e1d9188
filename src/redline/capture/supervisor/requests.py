"""Windows that are asked for while the job runs: one watcher takes the request, and all watchers of the job follow.

Where each rank has a watcher of its own, or each machine, they share nothing but the folder of the run. So the one that
takes a request writes the step after which the window begins into a numbered file, which the others look for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from redline.capture.shared_state import BEGIN, FILLED, REQUESTED, STEPS, STRIDE, ProcessSlot, SharedState
from redline.capture.supervisor.folder_name import CAPTURE

_AHEAD_STEPS = 2  # so that all ranks can begin at the same step
_AHEAD_NS = 750_000_000  # in which every watcher has looked


class Requests:
    """What this watcher knows of windows that were asked for."""

    def __init__(self, folder: Path, shared: SharedState, slots: Callable[[], Sequence[ProcessSlot]]) -> None:
        self._folder = folder
        self._shared = shared
        self._slots = slots
        self._known = 0

    def look(self) -> None:
        """Now and then."""
        with suppress(OSError):
            (self._folder / CAPTURE).unlink()  # of several watchers only one succeeds
            self.ask()
        self._follow()

    def ask(self) -> None:
        """For a window, to begin at the same step on all ranks."""
        begin = max(map(_begin, self._slots()), default=_AHEAD_STEPS)
        with suppress(OSError), self._numbered(self._known + 1).open("x") as file:
            file.write(f"{begin}\n")
        self._follow()

    def _follow(self) -> None:
        with suppress(OSError, ValueError):  # there is none, or it is being written
            begin = int(self._numbered(self._known + 1).read_text(encoding="utf-8"))
            self._known += 1
            self._shared.job_words[BEGIN] = begin
            self._shared.job_words[REQUESTED] += 1

    def forget(self) -> None:
        """The job is over."""
        for number in range(1, self._known + 1):
            with suppress(OSError):
                self._numbered(number).unlink()

    def _numbered(self, number: int) -> Path:
        return self._folder / f"{CAPTURE}-{number}"


def _begin(slot: ProcessSlot) -> int:
    """A step that no rank has reached before its watcher has heard of it."""
    filled = slot.words[FILLED]
    last_ns = slot.entries[2 * (filled - 1)] // slot.words[STRIDE] if filled else 0
    return slot.words[STEPS] + _AHEAD_STEPS + (_AHEAD_NS // last_ns if last_ns else 0)
