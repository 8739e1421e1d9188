"""Samples the Python stack of the training thread while a window is open, from a thread of our own.

Reading a stack takes the interpreter lock. The training thread gives it away in every operator of torch and in most
calls that block, else after Python's switch interval (5 ms). So a sample is taken a little later than it was due, at
the next such moment; both times are kept. When it is due does not depend on what the job does.
"""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock, get_ident, start_new_thread
from time import thread_time_ns, time_ns

from redline.capture.process import BEGINS_WITHIN_S, has_memory_limit
from redline.capture.worker.recording.host_evidence import Collector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType
    from typing import Any

RATE_HZ = 200  # at most
CPU_SHARE = 0.003  # of a core that sampling may use: a sample costs 40 to 120 us, most of it for waking up
CPU_AHEAD_NS = 1_000_000  # that it may use before, so that short windows have samples too
_MOST_SAMPLES = 8192  # then every other one is dropped, and the rate halved
_MOST_FRAMES = 48  # from the innermost on
_MOST_STACKS = 4096  # distinct ones; samples of further ones are dropped
_LONGEST_TEXT = 200  # of a file or a function
_NS = 1_000_000_000
_GOLDEN = 0.6180339887498949  # its multiples, modulo 1, spread evenly: no loop can keep in time with them
_ENDS_WITHIN_S = 0.25  # the thread, once it is told to


class StackSampleCollector(Collector):
    """Collects one window's samples: code and positions in it, never frames, which would keep the script's objects."""

    key = "samples"

    def __init__(self, is_here: Callable[[], bool]) -> None:
        self._is_here = is_here
        self._thread = 0  # that is sampled; 0 while no window is open
        self._wake: Any = None  # releasing it ends our thread
        self._ended: Any = None
        self._clear()
        # A process with another thread gets a warning when it forks, and the child would not have ours.
        os.register_at_fork(before=self._pause, after_in_parent=self._resume)

    def _clear(self) -> None:
        self._least_ns = _NS // RATE_HZ  # from one sample to the next, on average
        self._spent_ns = 0
        self._began_ns = time_ns()
        self._lasted_ns = 0
        self._due_ns: list[int] = []
        self._delay_ns: list[int] = []
        self._stack: list[int] = []
        self._stacks: dict[tuple[object, ...], int] = {}

    def window_opened(self) -> None:
        self._clear()
        self._thread = get_ident()
        self._resume()

    def window_closed(self) -> None:
        self._pause()
        self._thread = 0
        self._lasted_ns = time_ns() - self._began_ns

    def part(self) -> object:
        """Times in ns since 1970, stacks with the innermost frame first; None without samples."""
        if not self._stack:
            return None
        names = _Names()
        return {
            "rate_hz": round(len(self._stack) * _NS / max(self._lasted_ns, 1), 1),
            "time_ns": self._due_ns,
            "delay_ns": self._delay_ns,
            "stack": self._stack,
            "stacks": [names.of_stack(stack) for stack in self._stacks],
        }

    def abandon(self) -> None:
        """Also in a child that was forked, where no thread of ours is."""
        self._pause()
        self._thread = 0
        self._wake = None

    def _pause(self) -> None:
        wake, ended, self._wake = self._wake, self._ended, None
        if wake is not None and self._is_here():
            wake.release()
            ended.acquire(timeout=_ENDS_WITHIN_S)

    def _resume(self) -> None:
        if not self._thread or self._wake is not None or not self._is_here() or has_memory_limit():
            return
        wake, ended = allocate_lock(), allocate_lock()
        wake.acquire()
        ended.acquire()
        begun = allocate_lock()
        begun.acquire()
        try:
            start_new_thread(self._run, (wake, ended, begun))
        except RuntimeError:  # no more threads may be had
            return
        # A thread needs memory to begin; if the script has used it all up by then, Python says so in its stderr.
        begun.acquire(timeout=BEGINS_WITHIN_S)
        self._wake, self._ended = wake, ended

    def _run(self, wake: Any, ended: Any, begun: Any) -> None:
        begun.release()
        try:
            before_ns, phase = self._spent_ns, 0.0
            due_ns = time_ns() + self._least_ns // 2
            while not wake.acquire(timeout=max(due_ns - time_ns(), 0) / _NS):
                self._sample(due_ns)
                phase = (phase + _GOLDEN) % 1.0
                self._spent_ns = before_ns + thread_time_ns()
                affordable_ns = self._began_ns + int((self._spent_ns - CPU_AHEAD_NS) / CPU_SHARE)
                due_ns = max(time_ns(), affordable_ns) + int(self._least_ns * (0.5 + phase))
        except BaseException:  # noqa: BLE001 (an audit hook of the script may refuse: then there are no more samples)
            pass
        finally:
            ended.release()

    def _sample(self, due_ns: int) -> None:
        at: list[object] = []
        frame = sys._current_frames().get(self._thread)
        while frame is not None and len(at) < 2 * _MOST_FRAMES:
            at += (frame.f_code, frame.f_lasti)
            frame = frame.f_back
        del frame
        stack = tuple(at)
        number = self._stacks.get(stack)
        if number is None:
            if not stack or len(self._stacks) >= _MOST_STACKS:
                return
            number = self._stacks[stack] = len(self._stacks)
        self._due_ns.append(due_ns)
        self._delay_ns.append(time_ns() - due_ns)
        self._stack.append(number)
        if len(self._stack) >= _MOST_SAMPLES:
            self._least_ns *= 2
            for column in (self._due_ns, self._delay_ns, self._stack):
                del column[::2]


class _Names:
    """Texts of positions in code: `file.py:12 function`, with files as they are found on Python's path."""

    def __init__(self) -> None:
        folders = {f"{folder.rstrip('/')}/" for folder in map(str, sys.path) if folder.strip("/")}
        self._folders = sorted(folders, key=len, reverse=True)
        self._files: dict[str, str] = {}
        self._texts: dict[tuple[CodeType, int], str] = {}

    def of_stack(self, stack: tuple[Any, ...]) -> list[str]:
        return list(self._positions(stack))

    def _positions(self, stack: tuple[Any, ...]) -> Iterator[str]:
        for code, at in zip(stack[::2], stack[1::2], strict=True):
            key = (code, at)
            if key not in self._texts:
                function = code.co_qualname if hasattr(code, "co_qualname") else code.co_name
                function = function.replace("<locals>.", "")[-_LONGEST_TEXT:]
                self._texts[key] = f"{self._file(code.co_filename)}:{_line(code, at)} {function}"
            yield self._texts[key]

    def _file(self, path: str) -> str:
        if path not in self._files:
            folder = next((folder for folder in self._folders if path.startswith(folder)), "")
            self._files[path] = path[len(folder) :][-_LONGEST_TEXT:]
        return self._files[path]


def _line(code: CodeType, at: int) -> int:
    for begin, end, line in code.co_lines():
        if begin <= at < end:
            return line or code.co_firstlineno
    return code.co_firstlineno
