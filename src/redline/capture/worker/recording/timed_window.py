"""A window of fixed duration, for a job whose steps nobody has recognised: when it opens, and who sees to that.

Until the first step, a thread of ours waits for that moment; nothing else comes by in a job without an optimizer and
without modules. It opens and closes the window in the main thread, as a profiler records the thread that starts it.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from _thread import allocate_lock, start_new_thread
from time import perf_counter_ns, sleep

import torch

from redline.capture.process import BEGINS_WITHIN_S, has_memory_limit, is_alive
from redline.capture.shared_state import KIND, OFFSPRING, PID, STEPS, TIMED_NS
from redline.capture.worker.exception_origin import NOT_THE_SCRIPTS, pass_on, tolerated
from redline.capture.worker.notes import NO_THREADS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from redline.capture.worker.process_context import ProcessContext
    from redline.capture.worker.recording.capture import Capture

_NS = 1_000_000_000
_TICK_S = 0.25
_TOGETHER_NS = _NS // 2  # from the decision to the window, so that other ranks hear of it
_WARM_UP_S = 0.25
_OPEN_WITHIN_NS = 5 * _NS
_NEVER_NS = 1 << 62
_DURATION_S = 1.0
_TRY_S = 0.02  # from one try to the next
_CHOOSY_NS = 500_000_000  # after that, a moment between two lines of torch or Python's library will do
_AGAIN_NS = 2_000_000_000  # a call in which a handler of the script raised at once has done nothing
_MOST_QUEUED = 8
_WITH_LOCKS = ("redline", "concurrent")  # that a fork waits for: it must not begin while this very thread holds them


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
        """This rank or another one has waited long enough, and half a second has passed since."""
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
        """Other processes take steps, or this one has started those that do the work."""
        with tolerated(OSError):
            others = self._context.others()
            is_first = not self._context.settings.offspring
            return any(other[STEPS] or (is_first and other[OFFSPRING] and is_alive(other[PID])) for other in others)
        return False


# Python has a queue of calls for its main thread, which it works off between two instructions; nothing is interrupted
# by that, no system call and no sleep, and no signal is used. What comes from outside meanwhile, such as an exception
# that a signal handler of the script raises, leaves the call where the script would have seen it.
class MainThreadCall:
    """Runs a function in the main thread between two instructions of the script, asked for by another thread.

    The one call that is asked for at a time.

    What Python calls is `PyObject_IsTrue` on this object: a function in C, which unlike one of ours can be left by an
    exception at every instruction.
    """

    def __init__(self, is_here: Callable[[], bool]) -> None:
        self._is_here = is_here
        self._act: Callable[[], None] | None = None
        self._asked_ns = 0
        self._queued_ns: list[int] = []
        self._call = ctypes.cast(ctypes.pythonapi.PyObject_IsTrue, ctypes.c_void_p)

    def run(self, act: Callable[[], None], within_ns: int, *, must: bool = False) -> bool:
        """Have it done; False if the main thread gave no opportunity in that time. `must` if any moment is right."""
        self._asked_ns = perf_counter_ns() if not must else perf_counter_ns() - _CHOOSY_NS
        until_ns = perf_counter_ns() + within_ns
        self._act = act
        while self._is_due() or self._is_at_work():
            if self._is_due() and perf_counter_ns() >= until_ns:
                self._act = None
                return False
            if self._is_due():
                self._queue()
            sleep(_TRY_S)
        return True

    def _is_due(self) -> bool:
        return self._act is not None

    def _is_at_work(self) -> bool:
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        return any(at.f_code is MainThreadCall.__bool__.__code__ for at in _stack(frame))

    def _queue(self) -> None:
        now_ns, queued_ns = perf_counter_ns(), self._queued_ns
        is_time = not queued_ns or (len(queued_ns) < _MOST_QUEUED and now_ns - queued_ns[-1] > _AGAIN_NS)
        if is_time and ctypes.pythonapi.Py_AddPendingCall(self._call, ctypes.py_object(self)) == 0:
            queued_ns.append(now_ns)

    def __bool__(self) -> bool:
        """Always false: anything else would be an error to Python."""
        try:
            self._queued_ns.clear()
            act = self._act
            if act is not None and self._is_here() and self._is_good_moment(sys._getframe(1)):
                self._act = None
                act()
        except BaseException as error:  # noqa: BLE001
            pass_on(error)
        return False

    def _is_good_moment(self, interrupted: FrameType) -> bool:
        """Not in a backward pass or a compiler; at first only between two lines of the script or its own libraries."""
        if torch._C._current_graph_task_id() != -1 or torch.compiler.is_compiling():
            return False
        if perf_counter_ns() - self._asked_ns < _CHOOSY_NS:
            return _package(interrupted) not in NOT_THE_SCRIPTS
        return not any(_package(frame) in _WITH_LOCKS for frame in _stack(interrupted))


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
