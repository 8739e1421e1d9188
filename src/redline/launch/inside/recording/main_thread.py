"""Runs a function in the main thread between two instructions of the script, asked for by another thread.

Python has a queue of calls for its main thread, which it works off between two instructions; nothing is interrupted by
that, no system call and no sleep, and no signal is used. What comes from outside meanwhile, such as an exception that a
signal handler of the script raises, cannot leave such a call: it is raised afterwards, at the next instruction.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from time import perf_counter_ns, sleep

import torch

from redline.launch.inside.exception_origin import NOT_THE_SCRIPTS, arrived

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

_TRY_S = 0.02  # from one try to the next
_CHOOSY_NS = 500_000_000  # after that, a moment between two lines of torch or Python's library will do
_WITH_LOCKS = ("redline", "concurrent")  # that a fork waits for: it must not begin while this very thread holds them


class MainThreadCall:
    """The one call that is asked for at a time."""

    def __init__(self, is_here: Callable[[], bool]) -> None:
        self._is_here = is_here
        self._act: Callable[[], None] | None = None
        self._asked_ns = 0
        self._queued = False
        self._is_over = True  # no call is at work
        self._arrived: BaseException | None = None
        self._call = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(self._called)

    def run(self, act: Callable[[], None], within_ns: int, *, must: bool = False) -> bool:
        """Have it done; False if the main thread gave no opportunity in that time. `must` if any moment is right."""
        self._asked_ns = perf_counter_ns() if not must else perf_counter_ns() - _CHOOSY_NS
        until_ns = perf_counter_ns() + within_ns
        self._act = act
        while self._is_due() or not self._is_over:
            if self._is_due() and perf_counter_ns() >= until_ns:
                self._act = None
                return False
            if self._is_due() and not self._queued:
                self._queued = ctypes.pythonapi.Py_AddPendingCall(self._call, None) == 0
            sleep(_TRY_S)
            if self._is_over:
                self._raise_there()
        return True

    def _is_due(self) -> bool:
        return self._act is not None

    def _called(self, _: object) -> int:
        try:
            self._is_over = self._queued = False
            act = self._act
            if act is not None and self._is_here() and self._is_good_moment(sys._getframe(1)):
                self._act = None
                act()
        except BaseException as error:  # noqa: BLE001
            self._arrived = arrived(error)
        self._is_over = True  # no call may follow: another thread is about to raise what arrived
        return 0

    def _is_good_moment(self, interrupted: FrameType) -> bool:
        """Not in a backward pass or a compiler; at first only between two lines of the script or its own libraries."""
        if torch._C._current_graph_task_id() != -1 or torch.compiler.is_compiling():
            return False
        if perf_counter_ns() - self._asked_ns < _CHOOSY_NS:
            return _package(interrupted) not in NOT_THE_SCRIPTS
        return not any(_package(frame) in _WITH_LOCKS for frame in _stack(interrupted))

    def _raise_there(self) -> None:
        """Python makes an exception of the class that it is given: this one makes the one that there is already."""
        error, self._arrived = self._arrived, None
        if error is not None:
            again = type(type(error).__name__, (type(error),), {"__new__": lambda *_: error})
            thread = ctypes.c_ulong(threading.main_thread().ident or 0)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(again))


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
