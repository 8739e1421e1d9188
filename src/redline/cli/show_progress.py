"""A bar on the terminal while work takes long: what is done, how far, and how much time is left. It vanishes."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager

from redline.progress import silent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from redline.cli.paint import ProgressBar
    from redline.progress import Progress, ProgressStage

_APPEARS_S = 1.0  # shorter work needs no bar
_REDRAWN_S = 0.25


@contextmanager
def progress(options: Any, *, in_background: bool = True) -> Iterator[Progress]:
    """What shows the progress of the work inside; nothing where stderr is no terminal, or with --quiet.

    In the background the clock of the bar runs on while a long piece of work is under way. Measurements do without:
    the thread would disturb them.
    """
    from redline.report.display import can_draw

    if options.quiet or not can_draw(sys.stderr):
        yield silent
        return
    bar = _Bar(*_labels(options), in_background=in_background)
    try:
        yield bar
    finally:
        bar.stop()


def _labels(options: Any) -> tuple[dict[ProgressStage, str], str]:
    """In the language of the report: what is done, and how much time is left."""
    from redline.cli.arguments import language
    from redline.report.language import speaking
    from redline.report.stage_names import stage_names, time_left

    with speaking(language(options) if hasattr(options, "lang") else "en"):
        return stage_names(), time_left()


class _Bar:
    """Takes what is told, and draws it once the work has taken long enough. rich is imported when it does."""

    def __init__(self, labels: dict[ProgressStage, str], left: str, *, in_background: bool) -> None:
        self._labels, self._left = labels, left
        self._in_background = in_background
        self._began_s = self._stage_began_s = self._drawn_s = time.monotonic()
        self._told: tuple[ProgressStage, float, float] | None = None
        self._lock = threading.RLock()
        self._bar: ProgressBar | None = None
        self._is_over = False
        self._timer = threading.Timer(_APPEARS_S, self._appear)
        self._timer.daemon = True
        if in_background:
            self._timer.start()

    def __call__(self, stage: ProgressStage, done: float, total: float) -> None:
        with self._lock:
            now_s = time.monotonic()
            if self._told is None or stage is not self._told[0]:
                self._stage_began_s = now_s
            self._told = stage, done, total
            if now_s - self._began_s < _APPEARS_S or now_s - self._drawn_s < _REDRAWN_S:
                return
            self._drawn_s = now_s
            self._appear()

    def stop(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._is_over = True
            if self._bar is not None:
                self._bar.stop()

    def _appear(self) -> None:
        """Draw what was told last, if anything was."""
        with self._lock:
            if self._is_over or self._told is None:
                return
            if self._bar is None:
                from redline.cli.paint import ProgressBar

                self._bar = ProgressBar(self._labels, self._left, in_background=self._in_background)
            self._bar.show(*self._told, self._stage_began_s)
