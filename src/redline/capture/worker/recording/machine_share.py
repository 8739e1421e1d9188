"""What the process may use of its machine: cores by affinity and by quota, threads of torch, and who else runs."""

from __future__ import annotations

import os

import torch

from redline.capture.process import control_groups, system_file
from redline.capture.shared_state import PID, STEPS
from redline.capture.worker.exception_origin import tolerated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from redline.capture.worker.process_context import ProcessContext

_MOST_READINGS = 8  # of how many threads run


class MachineShareCollector:
    """Read when the window closes; what changes meanwhile, at the borders of its first steps too."""

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
                self._running.append(int(_content("/proc/loadavg").split()[3].partition("/")[0]))

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


def _content(path: str) -> str:
    return system_file(path).decode("ascii", "replace")


def quota_cores() -> float | None:
    """How many cores the quotas of the process's cgroup and those above let it use at most; None without a quota."""
    quotas = []
    for folder in control_groups("cpu"):
        with tolerated(OSError, ValueError):
            quota, period = _content(f"{folder}/cpu.max").split()  # version 2
            if quota != "max":
                quotas.append(int(quota) / int(period))
        with tolerated(OSError, ValueError, ZeroDivisionError):
            quota_us = int(_content(f"{folder}/cpu.cfs_quota_us"))
            if quota_us > 0:
                quotas.append(quota_us / int(_content(f"{folder}/cpu.cfs_period_us")))
    return min(quotas, default=None)


def _throttled_ns() -> int | None:
    """How long the quota has held the group back, added up over cores; None where nobody counts it."""
    for folder in control_groups("cpu"):
        with tolerated(OSError, ValueError):
            counters = dict(line.split(maxsplit=1) for line in _content(f"{folder}/cpu.stat").splitlines())
            if "throttled_usec" in counters:
                return int(counters["throttled_usec"]) * 1000
            if "throttled_time" in counters:
                return int(counters["throttled_time"])
    return None
