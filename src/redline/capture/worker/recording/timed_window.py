"""A window of fixed duration, for a job whose steps nobody has recognised: when it opens, and who sees to that.

Until the first step, a thread of ours waits for that moment; nothing else comes by in a job without an optimizer and
without modules. It opens and closes the window in the main thread, as a profiler records the thread that starts it.
"""

from __future__ import annotations

import os
import threading
from _thread import allocate_lock, start_new_thread
from time import perf_counter_ns, sleep

from redline.capture.process import BEGINS_WITHIN_S, has_memory_limit, is_alive
from redline.capture.shared_state import KIND, OFFSPRING, PID, STEPS, TIMED_NS
from redline.capture.worker.exception_origin import tolerated
from redline.capture.worker.notes import NO_THREADS
from redline.capture.worker.recording.main_thread import MainThreadCall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from redline.capture.worker.process_context import ProcessContext
    from redline.capture.worker.recording.capture import Capture

_NS = 1_000_000_000
_TICK_S = 0.25
_TOGETHER_NS = _NS // 2  # from the decision to the window, so that other ranks hear of it
_WARM_UP_S = 0.25
_OPEN_WITHIN_NS = 5 * _NS
_NEVER_NS = 1 << 62
_DURATION_S = 1.0


class TimedWindow:
    """Opens one window, unless a step is recognised before."""

    def __init__(self, context: ProcessContext, capture: Capture) -> None:
        self._context = context
        self._capture = capture
        self._shared = context.shared.job_words
        self._due_ns = perf_counter_ns() + round(context.settings.timed_after_s * _NS)
        self._main = MainThreadCall(context.is_here)
        self._cancelled = False
        self._waits = False
        self._wake = allocate_lock()
        self._ended = allocate_lock()

    def wait(self) -> None:
        """From now on, if such windows are wanted, and if this is the thread that they would show."""
        settings = self._context.settings
        wanted = settings.capture and settings.folder and not settings.when and settings.timed_after_s > 0
        if not wanted or settings.launcher == "ray" or threading.current_thread() is not threading.main_thread():
            return
        if has_memory_limit():
            self._capture.notes.add("no-threads", NO_THREADS)
            return
        self._start()
        # A process with another thread gets a warning when it forks.
        os.register_at_fork(before=self._stop, after_in_parent=self._start)

    def cancel(self) -> None:
        """A step was recognised."""
        self._cancelled = True

    def _start(self) -> None:
        if self._cancelled or self._waits or not self._context.is_here():
            return
        self._wake, self._ended = allocate_lock(), allocate_lock()
        self._wake.acquire()
        self._ended.acquire()
        begun = allocate_lock()
        begun.acquire()
        with tolerated(RuntimeError):  # no more threads may be had
            start_new_thread(self._run, (begun,))
            begun.acquire(timeout=BEGINS_WITHIN_S)

    def _stop(self) -> None:
        """End the thread, if it still waits for its moment."""
        if self._waits and self._context.is_here():
            self._wake.release()
            self._ended.acquire(timeout=_TICK_S)

    def _run(self, begun: object) -> None:
        self._waits = True
        begun.release()  # type: ignore[attr-defined]
        ended = self._ended
        with tolerated(BaseException):
            is_time = self._is_time()
            while not is_time and not self._cancelled and not self._wake.acquire(timeout=_TICK_S):
                is_time = self._is_time()
            self._waits = False
            ended.release()
            if is_time and not self._cancelled:
                self._cancelled = True  # one is enough
                self._record()

    def _is_time(self) -> bool:
        """Whether this rank or another one has waited long enough, and half a second has passed since."""
        now_ns = perf_counter_ns()
        if now_ns >= self._due_ns and not self._shared[TIMED_NS]:
            self._shared[TIMED_NS] = now_ns + _TOGETHER_NS
        return 0 < self._shared[TIMED_NS] <= now_ns

    def _record(self) -> None:
        if self._context.slot.words[KIND] or self._is_others_affair():
            return
        capture, main = self._capture, self._main
        if not main.run(capture.warm_up_timed, _OPEN_WITHIN_NS):
            capture.notes.add("no-opportunity", "no steps were recognised, and the main thread only waited")
            return
        sleep(_WARM_UP_S)
        if not main.run(capture.open_timed, _OPEN_WITHIN_NS):
            main.run(capture.close_timed, _NEVER_NS, must=True)
            return
        until_ns = perf_counter_ns() + round(_DURATION_S * _NS)
        while capture.is_timed() and perf_counter_ns() < until_ns and not capture.is_timed_too_large():
            sleep(_TICK_S / 5)
        main.run(capture.close_timed, _NEVER_NS)

    def _is_others_affair(self) -> bool:
        """Whether other processes take steps, or this one has started those that do the work."""
        with tolerated(OSError):
            others = self._context.others()
            is_first = not self._context.settings.offspring
            return any(other[STEPS] or (is_first and other[OFFSPRING] and is_alive(other[PID])) for other in others)
        return False
