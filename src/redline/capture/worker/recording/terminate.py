"""While a window is open, SIGTERM first saves what was recorded; then it does what it would have done without us.

Outside of a window no signal is touched: there is nothing to save.
"""

from __future__ import annotations

import os
import signal
import threading
from _thread import allocate_lock, start_new_thread
from contextlib import contextmanager, suppress

from redline.capture.process import BEGINS_WITHIN_S, has_memory_limit, out_of_the_way
from redline.capture.worker.exception_origin import tolerated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable, Iterator


class _Handler:
    """Python looks up the handler's call, which saves what was recorded, and then calls what that gives, the script's
    own handler: no frame of ours is in the traceback of what it raises."""

    def __init__(self, look_up: Callable[[], Callable[..., object]]) -> None:
        self._look_up = look_up

    @property
    def __call__(self) -> Callable[..., object]:
        return self._look_up()


class FlushOnTerm:
    """Stands before the process's own reaction to SIGTERM for as long as it is armed."""

    def __init__(self, flush: Callable[[], None], within_s: float) -> None:
        self._flush = flush
        self._within_s = within_s
        self._before: object = None
        self._armed = False
        self._busy = False  # what was recorded is being saved just now
        self._told = False  # to end, meanwhile
        self._handler = _Handler(self._on_term)
        self._pipe: tuple[int, int] | None = None
        self._file: os.stat_result | None = None  # that both ends of the pipe are
        self._done = threading.Event()
        os.register_at_fork(before=self._stop_waking, after_in_parent=self._start_waking)

    def arm(self) -> None:
        """In the main thread only: elsewhere Python lets nobody set a handler."""
        if self._armed or not _in_main_thread():
            return
        before = signal.getsignal(signal.SIGTERM)
        if before is None or before is signal.SIG_IGN:  # set by C code, or the signal does nothing
            return
        if before is signal.SIG_DFL and (has_memory_limit() or not self._watch_over()):
            return
        self._before = before
        self._done.clear()
        self._armed = True
        signal.signal(signal.SIGTERM, self._handler)

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Save what was recorded in here. SIGTERM that comes meanwhile takes effect afterwards, and we are gone."""
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
            self.disarm()
            if self._told:
                self._told = False
                os.kill(os.getpid(), signal.SIGTERM)

    def disarm(self) -> None:
        """In the main thread; what another thread leaves armed has nothing to save, and does no harm."""
        if not self._armed or not _in_main_thread():
            return
        self._armed = False
        self._done.set()
        if self._is_in_place():
            signal.signal(signal.SIGTERM, self._before)  # type: ignore[arg-type]
        self._stop_watching_over()

    def forget(self) -> None:
        """In a forked child: the handler there is the one that the script had."""
        if self._armed:
            self._armed = False
            if self._is_in_place():
                signal.signal(signal.SIGTERM, self._before)  # type: ignore[arg-type]
        if self._pipe is not None:
            self._stop_waking()
            for end in self._pipe:
                _close(end, self._file)
            self._pipe = None

    def _is_in_place(self) -> bool:
        return signal.getsignal(signal.SIGTERM) is self._handler

    def _on_term(self) -> Callable[..., object]:
        """The function to be called with the signal now."""
        if self._busy:
            self._told = True
            return _nothing
        before, was_in_place = self._before, self._is_in_place()
        self._flush()
        self.disarm()
        if callable(before):
            return before
        if was_in_place:  # otherwise a handler that the script has put before us has called us
            os.kill(os.getpid(), signal.SIGTERM)
        return _nothing

    def _watch_over(self) -> bool:
        """Python runs handlers in the main thread only; if that one hangs in C code, the process must still end."""
        listens = signal.set_wakeup_fd(-1)
        if listens != -1:  # somebody has to be told already; without our thread a hanging process would not end
            signal.set_wakeup_fd(listens)
            return False
        pipe = _pipe()
        self._file = os.fstat(pipe[0])
        begun = allocate_lock()
        begun.acquire()
        try:  # a thread that the script does not see among its own
            start_new_thread(self._end_if_stuck, (pipe[0], self._file, begun))
        except RuntimeError:  # no more may be had
            os.close(pipe[0])
            os.close(pipe[1])
            return False
        # A thread needs memory to begin; if the script has used it all up by then, Python says so in its stderr.
        begun.acquire(timeout=BEGINS_WITHIN_S)
        os.set_blocking(pipe[1], False)
        self._pipe = pipe
        self._start_waking()
        return True

    def _start_waking(self) -> None:
        if self._pipe is not None and _in_main_thread():
            self._wake(self._pipe[1], instead_of=-1)

    def _stop_waking(self) -> None:
        """Before a fork: the child must not wake our thread for signals of its own."""
        if self._pipe is not None and _in_main_thread():
            self._wake(-1, instead_of=self._pipe[1])

    @staticmethod
    def _wake(descriptor: int, *, instead_of: int) -> None:
        """If it is the script that has to be told by now, such as asyncio, it stays so."""
        with tolerated(OSError, ValueError):  # the script may have closed it
            found = signal.set_wakeup_fd(descriptor, warn_on_full_buffer=False)
            if found != instead_of:
                signal.set_wakeup_fd(found)

    def _stop_watching_over(self) -> None:
        if self._pipe is not None:
            self._stop_waking()
            (_, write_end), self._pipe = self._pipe, None
            _close(write_end, self._file)  # which ends the thread

    def _end_if_stuck(self, read_end: int, file: os.stat_result | None, begun: LockType) -> None:
        begun.release()
        with suppress(MemoryError, OSError):
            while _is_open(read_end, file) and (signals := os.read(read_end, 64)):
                if signal.SIGTERM in signals and not self._done.wait(self._within_s * 0.6):
                    _die_of(signal.SIGTERM)
        _close(read_end, file)


def _nothing(*_: object) -> None:
    """Do nothing."""


def _pipe() -> tuple[int, int]:
    ends = os.pipe()
    return out_of_the_way(ends[0]), out_of_the_way(ends[1])


def _is_open(descriptor: int, file: os.stat_result | None) -> bool:
    """The script may have closed it, and have a file of its own under that number."""
    with tolerated(OSError):
        return file is not None and os.path.samestat(file, os.fstat(descriptor))
    return False


def _close(descriptor: int, file: os.stat_result | None) -> None:
    if _is_open(descriptor, file):
        with tolerated(OSError):
            os.close(descriptor)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _die_of(number: int) -> None:
    import ctypes

    ctypes.CDLL(None).signal(number, 0)  # Python's own call is for the main thread only
    os.kill(os.getpid(), number)
