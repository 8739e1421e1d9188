"""The busiest threads of the process over a window: CPU time and time in the run queue of each.

Read when the window opens and when it closes, and at no step: a process may have hundreds of threads.
"""

from __future__ import annotations

import os
import threading
from _thread import get_native_id

from redline.capture.process import system_file
from redline.capture.worker.exception_origin import tolerated
from redline.capture.worker.recording.step_counters import schedstat

_TASKS = "/proc/self/task"
_MOST_READ = 512
_MOST_SHOWN = 16
_MOST_LETTERS = 80


class ThreadTimeCollector:
    """Two readings of all threads."""

    key = "threads"

    def __init__(self) -> None:
        self._before: dict[int, tuple[int, int]] = {}
        self._after: dict[int, tuple[int, int]] = {}
        self._training = 0

    def window_opened(self) -> None:
        self._training = get_native_id()
        self._before, self._after = _all_threads(), {}

    def step_ended(self) -> None:
        """Nothing: there may be many threads."""

    def window_closed(self) -> None:
        self._after = _all_threads()

    def part(self) -> object:
        before, self._before = self._before, {}
        after, self._after = self._after, {}
        used = []
        for tid, (cpu_ns, waited_ns) in after.items():
            cpu_before_ns, waited_before_ns = before.get(tid, (0, 0))  # it has begun since
            used.append((cpu_ns - cpu_before_ns, waited_ns - waited_before_ns, tid))
        names = _python_names()
        return [
            {
                "name": names.get(tid) or _system_name(tid),
                "tid": tid,
                "cpu_ns": cpu_ns,
                "run_queue_ns": waited_ns,
                "python": tid in names,
                "training": tid == self._training,
            }
            for cpu_ns, waited_ns, tid in sorted(used, reverse=True)[:_MOST_SHOWN]
            if cpu_ns > 0
        ] or None

    def abandon(self) -> None:
        self._before, self._after = {}, {}


def _all_threads() -> dict[int, tuple[int, int]]:
    known = {}
    with tolerated(OSError):
        for tid in os.listdir(_TASKS)[:_MOST_READ]:  # noqa: PTH208
            counters = schedstat(f"{_TASKS}/{tid}/schedstat")
            if counters:
                known[int(tid)] = counters
    return known


def _python_names() -> dict[int, str]:
    """Of threads that Python code has started. Without the lock of the list: whoever holds it may wait for us."""
    known = {}
    for thread in list(threading._active.values()):  # type: ignore[attr-defined]
        native_id, name = getattr(thread, "_native_id", None), getattr(thread, "_name", None)
        if isinstance(native_id, int) and isinstance(name, str):
            known[native_id] = name[:_MOST_LETTERS]
    return known


def _system_name(tid: int) -> str:
    with tolerated(OSError):
        return system_file(f"{_TASKS}/{tid}/comm").decode("utf-8", "replace").strip()
    return ""
