"""While a window is open, SIGTERM first saves what was recorded; then it does what it would have done without us.

Outside of a window no signal is touched: there is nothing to save.
"""

from __future__ import annotations

import os
import signal
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


class FlushOnTerm:
    """Stands before the process's own reaction to SIGTERM for as long as it is armed."""

    def __init__(self, flush: Callable[[], None], within_s: float) -> None:
        self._flush = flush
        self._within_s = within_s
        self._before: object = None
        self._armed = False
        self._pid = os.getpid()
        self._pipe: tuple[int, int] | None = None
        self._done = threading.Event()
        os.register_at_fork(before=self._stop_waking, after_in_parent=self._start_waking)

    def arm(self) -> None:
        """In the main thread only: elsewhere Python lets nobody set a handler."""
        if threading.current_thread() is not threading.main_thread():
            return
        before = signal.getsignal(signal.SIGTERM)
        if before is None or before is signal.SIG_IGN:  # set by C code, or the signal does nothing
            return
        self._before = before
        self._done.clear()
        signal.signal(signal.SIGTERM, self._on_term)
        self._armed = True
        if before is signal.SIG_DFL:
            self._watch_over()

    def disarm(self) -> None:
        if not self._armed:
            return
        self._armed = False
        self._done.set()
        # Compared by value: a bound method is made anew each time it is looked up.
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == self._on_term:
            signal.signal(signal.SIGTERM, self._before)  # type: ignore[arg-type]
        self._stop_watching_over()

    def forget(self) -> None:
        """In a forked child: the handler there is the one that the script had."""
        if self._armed:
            self._armed = False
            self._pipe = None
            signal.signal(signal.SIGTERM, self._before)  # type: ignore[arg-type]

    def _on_term(self, number: int, frame: FrameType | None) -> None:
        before = self._before
        self._flush()  # which disarms
        self.disarm()
        if callable(before):
            before(number, frame)
        elif before is signal.SIG_DFL:
            os.kill(os.getpid(), number)

    def _watch_over(self) -> None:
        """Python runs handlers in the main thread only; if that one hangs in C code, the process must still end."""
        if signal.set_wakeup_fd(-1) != -1:
            # Somebody listens there already. Without our thread a hanging process would not end, so we stay away.
            self._armed = False
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            return
        self._pipe = os.pipe()
        os.set_blocking(self._pipe[1], False)
        self._start_waking()
        threading.Thread(target=self._end_if_stuck, args=self._pipe[:1], daemon=True, name="redline-term").start()

    def _start_waking(self) -> None:
        if self._pipe is not None:
            signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)

    def _stop_waking(self) -> None:
        """Before a fork: the child must not wake our thread for signals of its own."""
        if self._pipe is not None and threading.current_thread() is threading.main_thread():
            signal.set_wakeup_fd(-1)

    def _stop_watching_over(self) -> None:
        if self._pipe is not None:
            self._stop_waking()
            (_, write_end), self._pipe = self._pipe, None
            os.close(write_end)  # which ends the thread

    def _end_if_stuck(self, read_end: int) -> None:
        try:
            while signals := os.read(read_end, 64):
                if signal.SIGTERM in signals and not self._done.wait(self._within_s * 0.6):
                    _die_of(signal.SIGTERM)
        finally:
            os.close(read_end)


def _die_of(number: int) -> None:
    import ctypes

    ctypes.CDLL(None).signal(number, 0)  # Python's own call is for the main thread only
    os.kill(os.getpid(), number)


def came_from_a_handler(error: BaseException) -> bool:
    """Whether a signal handler of the script raised it, which may happen anywhere, our code included."""
    handlers = {getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()} - {None}
    at = error.__traceback__
    while at is not None:
        if at.tb_frame.f_code in handlers:
            return True
        at = at.tb_next
    return False
