"""Per captured step, of the training thread: CPU time, time in the run queue and context switches.

Wall time of an operator is not compute time while the thread waits for a core: these counters tell the two apart.
"""

from __future__ import annotations

import resource
from _thread import get_native_id
from time import process_time_ns, thread_time_ns, time_ns

from redline.capture.process import system_file
from redline.capture.worker.exception_origin import tolerated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_OF_THIS_THREAD = getattr(resource, "RUSAGE_THREAD", None)  # Linux alone counts switches of a thread
_SCHEDSTAT = "/proc/thread-self/schedstat"
_MOST_STEPS = 10_000
_COUNTED = ("cpu_ns", "process_cpu_ns", "run_queue_ns", "involuntary", "voluntary")


class StepCounterCollector:
    """One reading at each border of a step."""

    key = "steps"

    def __init__(self) -> None:
        self._readings: list[Sequence[int | None]] = []
        self._thread = 0

    def window_opened(self) -> None:
        self._thread = get_native_id()
        self._readings = [_reading()]

    def step_ended(self) -> None:
        if len(self._readings) <= _MOST_STEPS:
            self._readings.append(_reading())

    def window_closed(self) -> None:
        if get_native_id() == self._thread:  # another thread may end the window, and has other counters
            self.step_ended()

    def part(self) -> object:
        """Columns with one row per step; those that the system does not count are left out."""
        readings, self._readings = self._readings, []
        if len(readings) < 2:
            return None
        times = [reading[0] for reading in readings]
        columns: dict[str, object] = {"begin_ns": times[:-1], "end_ns": times[1:]}
        for place, name in enumerate(_COUNTED, start=1):
            values = [reading[place] for reading in readings]
            if None not in values:
                columns[name] = [after - before for before, after in zip(values, values[1:])]  # type: ignore[operator]  # noqa: B905, RUF007
        return columns

    def abandon(self) -> None:
        self._readings = []


def _reading() -> Sequence[int | None]:
    switches: tuple[int | None, int | None] = (None, None)
    if _OF_THIS_THREAD is not None:
        usage = resource.getrusage(_OF_THIS_THREAD)
        switches = (usage.ru_nivcsw, usage.ru_nvcsw)
    return (time_ns(), thread_time_ns(), process_time_ns(), run_queue_ns(_SCHEDSTAT), *switches)


def run_queue_ns(path: str) -> int | None:
    """How long a thread has waited for a core in all; None where the kernel does not count it."""
    counters = schedstat(path)
    return counters[1] if counters else None


def schedstat(path: str) -> tuple[int, int] | None:
    """CPU time and time in the run queue of a thread. A kernel without the counters writes noughts, or has no file."""
    with tolerated(OSError, ValueError):
        cpu, waited, slices = map(int, system_file(path, 128).split())
        return (cpu, waited) if slices else None
    return None
