"""Evidence of the host while a window is open, as one more member of the trace: `"redline": {...}`.

Each part has a collector, which is asked at the borders of the window and of its steps. One that fails costs its part
and nothing else. Nothing is asked while no window is open.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
import threading
from _thread import get_native_id
from collections import deque
from functools import partial
from itertools import cycle
from operator import call
from time import process_time_ns, thread_time_ns, time_ns

import torch

from redline.capture.process import control_groups, system_file
from redline.capture.shared_state import PID, STEPS
from redline.capture.worker.exception_origin import tolerated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from redline.capture.worker.process_context import ProcessContext

_KEY, _VERSION = "redline", 1
_MOST_BYTES = 4 << 20  # of text: a thousandth of what a large trace has
_SHORTEST_NS = 100_000  # a young collection takes less, and there may be thousands
_MOST_RUNS = 5_000
_PER_RUN = 4  # entries: time and counters when it starts, and the same when it stops
_BACKEND = "gloo"
_MOST_READINGS = 8  # of how many threads run
_OF_THIS_THREAD = getattr(resource, "RUSAGE_THREAD", None)  # Linux alone counts switches of a thread
_SCHEDSTAT = "/proc/thread-self/schedstat"
_MOST_STEPS = 10_000
_COUNTED = ("cpu_ns", "process_cpu_ns", "run_queue_ns", "involuntary", "voluntary")
_TASKS = "/proc/self/task"
_MOST_READ = 512
_MOST_SHOWN = 16
_MOST_LETTERS = 80


class Collector:
    """Collects one part. All of it is called in the thread that the window is open in."""

    key: str  # of the part, as the reader knows it

    def window_opened(self) -> None:
        """The profiler is on, and the first step is about to begin."""

    def step_ended(self) -> None:
        """Between two steps of the window: a few microseconds at most."""

    def window_closed(self) -> None:
        """The last step has ended; the profiler is still on."""
        self.abandon()

    def part(self) -> object:
        """Give what was collected, as values that JSON knows; None for nothing. Called once, after the window."""
        raise NotImplementedError

    def abandon(self) -> None:
        """The window came to nothing, or this is a forked child of it: leave nothing behind. May come twice."""


class EvidenceRecorder:
    """All collectors of a process."""

    def __init__(self, collectors: Sequence[Collector]) -> None:
        self._collectors = collectors
        self._failed: set[str] = set()  # in this window

    def window_opened(self) -> None:
        self._failed.clear()
        for collector in self._collectors:
            self._ask(collector, "window_opened")

    def step_ended(self) -> None:
        for collector in self._collectors:
            self._ask(collector, "step_ended")

    def window_closed(self) -> None:
        """In the opposite order, so that what was first in is last out."""
        for collector in reversed(self._collectors):
            self._ask(collector, "window_closed")

    def abandon(self) -> None:
        for collector in self._collectors:
            with tolerated(Exception):
                collector.abandon()

    def take(self) -> Collected:
        """The parts of the window that was closed."""
        parts: dict[str, object] = {}
        for collector in self._collectors:
            part = None if collector.key in self._failed else self._ask(collector, "part")
            if part is not None:
                parts[collector.key] = part
        return Collected(parts)

    def _ask(self, collector: Collector, what: str) -> object:
        if collector.key in self._failed:
            return None
        with tolerated(Exception):
            return getattr(collector, what)()
        self._failed.add(collector.key)
        with tolerated(Exception):
            collector.abandon()
        return None


class Collected:
    """The parts of one window, not yet text: that is made beside the job."""

    def __init__(self, parts: dict[str, object]) -> None:
        self._parts = parts

    def as_member(self) -> bytes:
        """`"redline": {...}` as JSON on one line, without its largest parts where there is too much; b"" if nothing."""
        import json

        texts: dict[str, str] = {}
        for key, part in self._parts.items():
            with tolerated(Exception):
                texts[key] = f"{json.dumps(key)}: {json.dumps(part, allow_nan=False)}"
        while texts and sum(map(len, texts.values())) > _MOST_BYTES:
            del texts[max(texts, key=lambda key: len(texts[key]))]
        if not texts:
            return b""
        return f'"{_KEY}": {{"version": {_VERSION}, {", ".join(texts.values())}}}'.encode()


# The callback is made of functions in C alone. Python delivers a signal that arrived during a collection in the next
# bytecode that it runs: in a callback written in Python, whose exceptions are printed and dropped, so that the script
# would miss what its handler raises.
class GcRunCollector(Collector):
    """Runs of Python's garbage collector while a window is open, with their length.

    The callback is in Python's list only while a window is open.
    """

    key = "collections"

    def __init__(self) -> None:
        self._entries: deque[Any] = deque(maxlen=_PER_RUN * _MOST_RUNS)
        self._callback: Callable[..., object] | None = None

    def window_opened(self) -> None:
        self.abandon()
        self._entries = deque(maxlen=_PER_RUN * _MOST_RUNS)
        self._callback = _recorder(self._entries)
        gc.callbacks.append(self._callback)

    def part(self) -> object:
        columns: dict[str, list[int]] = {"begin_ns": [], "dur_ns": [], "generation": [], "collected": []}
        entries = list(self._entries)
        self._entries.clear()
        for at in range(0, len(entries) - _PER_RUN + 1, _PER_RUN):
            begin_ns, before, end_ns, after = entries[at : at + _PER_RUN]
            if end_ns - begin_ns >= _SHORTEST_NS:
                columns["begin_ns"].append(begin_ns)
                columns["dur_ns"].append(end_ns - begin_ns)
                columns["generation"].append(_oldest_collected(before, after))
                columns["collected"].append(_total(after, "collected") - _total(before, "collected"))
        return columns

    def abandon(self) -> None:
        """Out of the list, by identity: comparing would call the script's own callbacks."""
        callback, self._callback = self._callback, None
        for at, one in enumerate(gc.callbacks):
            if callback is not None and one is callback:
                del gc.callbacks[at]
                break


def _recorder(entries: deque[Any]) -> Callable[..., object]:
    """A callable for `gc.callbacks`: each call adds the time and the collector's counters to the entries.

    `max` calls its key for both arguments of the callback, and the key takes the next item of an iterator whose items
    are made by calling `time_ns` and `gc.get_stats` in turn.
    """
    stamps = map(call, cycle((time_ns, gc.get_stats)))
    return partial(max, key=partial(next, map(bool, map(entries.append, stamps))))


def _oldest_collected(before: list[dict[str, int]], after: list[dict[str, int]]) -> int:
    """The generation whose number of collections went up; -1 where none did."""
    for generation in reversed(range(min(len(before), len(after)))):
        if after[generation]["collections"] > before[generation]["collections"]:
            return generation
    return -1


def _total(stats: list[dict[str, int]], name: str) -> int:
    return sum(one[name] for one in stats)


class CollectiveNumberCollector(Collector):
    """How many collectives each process group has had, at the borders of a window: gloo writes no numbers of them.

    Asks the groups of this process, which know without asking other ranks.
    """

    key = "groups"

    def __init__(self) -> None:
        self._opened: dict[str, int] = {}
        self._part: list[dict[str, object]] = []

    def window_opened(self) -> None:
        self._part = []
        self._opened = {name: number for name, _, number in _groups()}

    def window_closed(self) -> None:
        self._part = [
            {"name": name, "ranks": ranks, "opened": self._opened.get(name, 0), "closed": number}
            for name, ranks, number in _groups()
        ]

    def part(self) -> object:
        part, self._part = self._part, []
        return part or None

    def abandon(self) -> None:
        self._part = []


def _groups() -> Iterator[tuple[str, list[int], int]]:
    """Name, ranks and number of collectives so far of each group of gloo."""
    c10d: Any = sys.modules.get("torch.distributed.distributed_c10d")
    if c10d is None or not c10d.is_initialized():
        return
    torch: Any = sys.modules["torch"]
    for group, (backend, _) in list(c10d._world.pg_map.items()):
        if _BACKEND in str(backend):
            with tolerated(Exception):
                number = group._get_backend(torch.device("cpu"))._get_sequence_number_for_group()
                yield group.group_name, c10d.get_process_group_ranks(group), number


class MachineShareCollector(Collector):
    """The part of its machine that a process may use: cores by affinity and quota, threads of torch, who else runs.

    Read when the window closes; what changes meanwhile, at the borders of its first steps too.
    """

    key = "machine"

    def __init__(self, context: ProcessContext) -> None:
        self._context = context
        self._running: list[int] = []
        self._throttled_ns: int | None = None
        self._part: dict[str, object] = {}

    def window_opened(self) -> None:
        self._running, self._part = [], {}
        self._throttled_ns = _throttled_ns()
        self.step_ended()

    def step_ended(self) -> None:
        if len(self._running) < _MOST_READINGS:
            with tolerated(OSError, ValueError, IndexError):
                self._running.append(int(_system_text("/proc/loadavg").split()[3].partition("/")[0]))

    def window_closed(self) -> None:
        self.step_ended()
        throttled_ns, before_ns = _throttled_ns(), self._throttled_ns
        self._part = {
            "cores_allowed": _known(lambda: len(os.sched_getaffinity(0))),
            "cores": _known(lambda: os.sysconf("SC_NPROCESSORS_ONLN")),
            "quota_cores": quota_cores(),
            "throttled_ns": None if throttled_ns is None or before_ns is None else throttled_ns - before_ns,
            "torch_threads": _known(torch.get_num_threads),
            "interop_threads": _known(torch.get_num_interop_threads),
            "running": sum(self._running) / len(self._running) if self._running else None,
            "ranks": _known(lambda: sum(1 for words in self._context.shared.words() if words[PID] and words[STEPS])),
        }

    def part(self) -> object:
        part, self._part = self._part, {}
        return part or None

    def abandon(self) -> None:
        self._part = {}


def _known(ask: Callable[[], int]) -> int | None:
    with tolerated(AttributeError, OSError, ValueError):
        return ask()
    return None


def _system_text(path: str) -> str:
    return system_file(path).decode("ascii", "replace")


def quota_cores() -> float | None:
    """How many cores the quotas of the process's cgroup and those above let it use at most; None without a quota."""
    quotas = []
    for folder in control_groups("cpu"):
        with tolerated(OSError, ValueError):
            quota, period = _system_text(f"{folder}/cpu.max").split()  # version 2
            if quota != "max":
                quotas.append(int(quota) / int(period))
        with tolerated(OSError, ValueError, ZeroDivisionError):
            quota_us = int(_system_text(f"{folder}/cpu.cfs_quota_us"))
            if quota_us > 0:
                quotas.append(quota_us / int(_system_text(f"{folder}/cpu.cfs_period_us")))
    return min(quotas, default=None)


def _throttled_ns() -> int | None:
    """How long the quota has held the group back, added up over cores; None where nobody counts it."""
    for folder in control_groups("cpu"):
        with tolerated(OSError, ValueError):
            counters = dict(line.split(maxsplit=1) for line in _system_text(f"{folder}/cpu.stat").splitlines())
            if "throttled_usec" in counters:
                return int(counters["throttled_usec"]) * 1000
            if "throttled_time" in counters:
                return int(counters["throttled_time"])
    return None


# Wall time of an operator is not compute time while the thread waits for a core: these counters tell the two apart.
class StepCounterCollector(Collector):
    """Per captured step, of the training thread: CPU time, time in the run queue and context switches.

    One reading at each border of a step.
    """

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


# Read when the window opens and when it closes, and at no step: a process may have hundreds of threads.
class ThreadTimeCollector(Collector):
    """The busiest threads of the process over a window: CPU time and time in the run queue of each.

    Two readings of all threads.
    """

    key = "threads"

    def __init__(self) -> None:
        self._before: dict[int, tuple[int, int]] = {}
        self._after: dict[int, tuple[int, int]] = {}
        self._training = 0

    def window_opened(self) -> None:
        self._training = get_native_id()
        self._before, self._after = _all_threads(), {}

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
    """Names of threads that Python code has started. Without the lock of the list: whoever holds it may wait for us."""
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
