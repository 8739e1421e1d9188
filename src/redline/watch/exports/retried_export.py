"""An export that may fail: the watch goes on, the failure is said once, and what was not written is tried again."""

import time
from collections import deque
from collections.abc import Callable

from redline.artifacts.masking import masked
from redline.errors import first_line
from redline.watch.exports.choose_export import MetricsExport
from redline.watch.exports.window_metrics import ExportedWindow

_MOST_WAITING = 512  # windows; the oldest are given up
_PAUSE_S = 30.0  # after a failure, as one may take long


class RetriedExport:
    """`tell` is given one line when the export begins to fail, and one when it works again."""

    def __init__(
        self,
        name: str,
        export: MetricsExport,
        tell: Callable[[str], None],
        pause_s: float = _PAUSE_S,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name, self._export, self._tell = name, export, tell
        self._pause_s, self._now_s = pause_s, now_s
        self._waiting: deque[ExportedWindow] = deque(maxlen=_MOST_WAITING)
        self._failed_s: float | None = None

    def write(self, window: ExportedWindow) -> None:
        self._waiting.append(window)
        if self._failed_s is None or self._now_s() - self._failed_s >= self._pause_s:
            self._try()

    def close(self) -> None:
        """With one more try."""
        self._try()
        try:
            self._export.close()
        except Exception as error:  # noqa: BLE001 (libraries of others raise what they like, and the watch is over)
            self._tell(f"export {self._name} did not close: {_reason(error)}")

    def _try(self) -> None:
        while self._waiting:
            try:
                self._export.write(self._waiting[0])
            except Exception as error:  # noqa: BLE001 (libraries of others raise what they like; the watch goes on)
                if self._failed_s is None:
                    self._tell(f"export {self._name} fails and will be tried again: {_reason(error)}")
                self._failed_s = self._now_s()
                return
            self._waiting.popleft()
        if self._failed_s is not None:
            self._tell(f"export {self._name} works again")
            self._failed_s = None


def _reason(error: Exception) -> str:
    return masked(first_line(error))
