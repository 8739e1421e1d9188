"""What is recorded about the host while a window is open, as one more member of the trace: `"redline": {...}`.

Each part has a collector, which is asked at the borders of the window and of its steps. One that fails costs its part
and nothing else. Nothing is asked while no window is open.
"""

from __future__ import annotations

from redline.capture.worker.exception_origin import tolerated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    class Collector(Protocol):
        """Collects one part. All of it is called in the thread that the window is open in."""

        key: str
        """Of the part, as the reader knows it."""

        def window_opened(self) -> None:
            """The profiler is on, and the first step is about to begin."""

        def step_ended(self) -> None:
            """Between two steps of the window: a few microseconds at most."""

        def window_closed(self) -> None:
            """The last step has ended; the profiler is still on."""

        def part(self) -> object:
            """What was collected, as values that JSON knows; None for nothing. Called once, after the window."""

        def abandon(self) -> None:
            """The window came to nothing, or this is a forked child of it: leave nothing behind. May come twice."""


_KEY, _VERSION = "redline", 1
_MOST_BYTES = 4 << 20  # of text: a thousandth of what a large trace has


class EvidenceRecorder:
    """All collectors of a process."""

    def __init__(self, collectors: Sequence[Collector]) -> None:
        self._collectors = collectors
        self._failed: set[str] = set()  # in this window

    def window_opened(self) -> None:
        self._failed.clear()
        for collector in self._collectors:
            self._ask(collector, "window_opened")

    def step_ended(self) -> None:
        for collector in self._collectors:
            self._ask(collector, "step_ended")

    def window_closed(self) -> None:
        """In the opposite order, so that what was first in is last out."""
        for collector in reversed(self._collectors):
            self._ask(collector, "window_closed")

    def abandon(self) -> None:
        for collector in self._collectors:
            with tolerated(Exception):
                collector.abandon()

    def take(self) -> Collected:
        """The parts of the window that was closed."""
        parts: dict[str, object] = {}
        for collector in self._collectors:
            part = None if collector.key in self._failed else self._ask(collector, "part")
            if part is not None:
                parts[collector.key] = part
        return Collected(parts)

    def _ask(self, collector: Collector, what: str) -> object:
        if collector.key in self._failed:
            return None
        with tolerated(Exception):
            return getattr(collector, what)()
        self._failed.add(collector.key)
        with tolerated(Exception):
            collector.abandon()
        return None


class Collected:
    """The parts of one window, not yet text: that is made beside the job."""

    def __init__(self, parts: dict[str, object]) -> None:
        self._parts = parts

    def as_member(self) -> bytes:
        """`"redline": {...}` as JSON on one line, without its largest parts where there is too much; b"" if nothing."""
        import json

        texts: dict[str, str] = {}
        for key, part in self._parts.items():
            with tolerated(Exception):
                texts[key] = f"{json.dumps(key)}: {json.dumps(part, allow_nan=False)}"
        while texts and sum(map(len, texts.values())) > _MOST_BYTES:
            del texts[max(texts, key=lambda key: len(texts[key]))]
        if not texts:
            return b""
        return f'"{_KEY}": {{"version": {_VERSION}, {", ".join(texts.values())}}}'.encode()
