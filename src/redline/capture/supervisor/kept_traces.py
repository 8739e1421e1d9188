"""Which digested traces stay: those of the newest windows, and of ranks that stand out. The others are deleted."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from redline.capture import shared_state as at
from redline.capture.process import is_alive
from redline.capture.run_record import DELETED, RankDigest
from redline.capture.shared_state import ProcessSlot
from redline.capture.supervisor.rank_records import TraceKey, WindowTrace

_MOST_TOLD = 8


class KeptTraces:
    """Digested traces that the rule has not decided on yet, and those that it deleted."""

    def __init__(
        self,
        folder: Path,
        windows: int | None,
        slots: Callable[[], Sequence[ProcessSlot]],
        troubles: DigestTroubles,
    ) -> None:
        self._folder = folder
        self._windows = windows  # whose traces stay; None for all
        self._slots = slots
        self._troubles = troubles
        self._undecided: dict[tuple[int, int], list[WindowTrace]] = {}
        self._emptied: list[Path] = []
        self.deleted: set[TraceKey] = set()

    def add(self, trace: WindowTrace) -> None:
        """It was digested."""
        if self._windows is not None:
            self._undecided.setdefault(trace.window, []).append(trace)

    def due(self) -> tuple[int, int] | None:
        """The oldest undecided window, where it is none of the newest, and no trace of it is still to come."""
        if self._windows is None or len(self._undecided) <= self._windows:
            return None
        oldest = min(self._undecided)
        exporting = {
            (slot.words[at.RESTART], at.public_number(window[at.NUMBER]))
            for slot in self._slots()
            for window in slot.windows()
            if window[at.STATE] == at.EXPORTING
        }
        if oldest in exporting or (
            len(self._undecided) == 1 and any(_is_behind(slot, oldest) for slot in self._slots())
        ):
            return None
        return oldest

    def choice(self, window: tuple[int, int]) -> dict[str, Any] | None:
        """The task of finding out which of the own ranks stand out in it; None where one is alone."""
        traces = self._undecided[window]
        digests = (self._folder / traces[0].digest.path).parent
        own = [trace.digest.rank for trace in traces]
        if len(own) == 1 and len(list(islice(digests.iterdir(), 2))) == 1:
            return None
        return {"choose": str(digests), "own": own}

    def decide(self, window: tuple[int, int], standing_out: Mapping[str, str] | None) -> list[tuple[WindowTrace, str]]:
        """The fate of each trace of the window; nothing where it could not be found out who stands out."""
        self.remove_emptied()
        traces = self._undecided.pop(window, [])
        if standing_out is None:
            self._troubles.add("it could not be found out which ranks stand out; all traces of a window were kept")
            return []
        decided = []
        for trace in traces:
            why = standing_out.get(str(trace.digest.rank))
            if why is not None:
                decided.append((trace, why))
            elif self._is_gone(trace):
                decided.append((trace, DELETED))
        return decided

    def _is_gone(self, trace: WindowTrace) -> bool:
        path = self._folder / trace.key[0]
        try:
            path.unlink()
        except FileNotFoundError:  # it made room for a newer one
            return False
        except OSError as error:
            self._troubles.add(f"a trace could not be deleted ({error.strerror})")
            return False
        self.deleted.add(trace.key)
        self._emptied.append(path.parent)
        return True

    def remove_emptied(self) -> None:
        """Folders of windows, a window later: until then ranks of other watchers may be about to write into them."""
        for folder in dict.fromkeys(self._emptied):
            with suppress(OSError):  # others have theirs in it
                folder.rmdir()
        self._emptied.clear()


def _is_behind(slot: ProcessSlot, window: tuple[int, int]) -> bool:
    """This rank is yet to have the window, as far as one can know."""
    restart, number = window
    return slot.words[at.RESTART] == restart and slot.words[at.WINDOWS_DONE] < number and is_alive(slot.words[at.PID])


class DigestTroubles:
    """Sentences with how often each was said; so many at most, whatever goes wrong for however long."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def add(self, text: str) -> None:
        if text not in self._counts and len(self._counts) >= _MOST_TOLD:
            text = next(reversed(self._counts))
        self._counts[text] = self._counts.get(text, 0) + 1

    def notes(self) -> list[str]:
        return [
            f"digests: {text}" if count == 1 else f"digests: {text} ({count - 1} more)"
            for text, count in self._counts.items()
        ]


def named(digest: RankDigest) -> str:
    after = f" after restart {digest.restart}" if digest.restart else ""
    return f"rank {digest.rank}, window {digest.window}{after}"


def why_unfinished(status: int, quiet_s: float | None, most_cpu_s: int) -> str:
    """Why a process did not do all that it was given, by how it ended; `quiet_s` where it was ended for its silence."""
    if quiet_s is not None:
        return f"digesting took more than {quiet_s:g} s"
    if not os.WIFSIGNALED(status):
        return f"the digesting process ended with exit code {os.WEXITSTATUS(status)}"
    number = os.WTERMSIG(status)
    if number == signal.SIGXCPU:
        return f"digesting took more than {most_cpu_s} s of CPU time"
    name = f"signal {number}"
    with suppress(ValueError):
        name = signal.Signals(number).name
    return f"the digesting process was ended by {name}"
