"""What went wrong with digests at the source, in words for the notes of the run: the first few of each kind."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from redline.capture.digests_record import RankDigest

_MOST_TOLD = 8


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
