"""How long a calibration may still take, and whether somebody asked it to end: what it has by then is kept."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

QUICK_S, FULL_S = 90.0, 300.0
_MEASURING = 0.8  # of the budget. The rest is for fitting, rendering and writing: on a busy machine they take long too
_LATE = 0.9
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Budget:
    """Wall time from when it is made. A signal ends it early; a second one ends the program as usual."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.has_results = False
        """Before there are any, a signal ends the program at once."""
        self.stopped_by = ""
        self._began_s = time.monotonic()

    def left_s(self) -> float:
        return 0.0 if self.stopped_by else max(0.0, self._began_s + self.measuring_s - time.monotonic())

    @property
    def measuring_s(self) -> float:
        return _MEASURING * self.seconds

    @property
    def is_over(self) -> bool:
        return self.left_s() <= 0.0

    @property
    def is_late(self) -> bool:
        """Tell whether what can be left out should be."""
        return bool(self.stopped_by) or time.monotonic() > self._began_s + _LATE * self.seconds

    @property
    def why_over(self) -> str:
        return f"stopped by {self.stopped_by}" if self.stopped_by else f"no time was left of {self.seconds:g} s"

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Signals that end programs end the measuring. What the caller ignores stays ignored."""
        is_main = threading.current_thread() is threading.main_thread()
        before = {number: signal.getsignal(number) for number in _SIGNALS} if is_main else {}
        taken = [
            number for number, handler in before.items() if handler in (signal.SIG_DFL, signal.default_int_handler)
        ]
        owner = os.getpid()

        def stop(number: int, _frame: object) -> None:
            if os.getpid() != owner:  # a worker of a data loader, which got this handler from us
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
            elif self.stopped_by or not self.has_results:
                raise KeyboardInterrupt
            self.stopped_by = signal.Signals(number).name

        for number in taken:
            signal.signal(number, stop)
        try:
            yield
        finally:
            for number in taken:
                signal.signal(number, before[number])
