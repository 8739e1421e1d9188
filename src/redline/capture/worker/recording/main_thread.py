"""Runs a function in the main thread between two instructions of the script, asked for by another thread.

Python has a queue of calls for its main thread, which it works off between two instructions; nothing is interrupted by
that, no system call and no sleep, and no signal is used. What comes from outside meanwhile, such as an exception that a
signal handler of the script raises, leaves the call where the script would have seen it.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from time import perf_counter_ns, sleep

import torch

from redline.capture.worker.exception_origin import NOT_THE_SCRIPTS, pass_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

_TRY_S = 0.02  # from one try to the next
_CHOOSY_NS = 500_000_000  # after that, a moment between two lines of torch or Python's library will do
_AGAIN_NS = 2_000_000_000  # a call in which a handler of the script raised at once has done nothing
_MOST_QUEUED = 8
_WITH_LOCKS = ("redline", "concurrent")  # that a fork waits for: it must not begin while this very thread holds them


class MainThreadCall:
    """The one call that is asked for at a time.

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
