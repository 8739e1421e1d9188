"""Lever `affinity`: each rank of a machine keeps to its own share of the cores."""

from __future__ import annotations

import os

from redline.capture.worker.exception_origin import tolerated
from redline.capture.worker.levers.lever import JobView, LeverEffect

_BOUND_BY = ("OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")
_TOPOLOGY = "/sys/devices/system/cpu/cpu{}/topology/{}"


class CoreShare:
    """All threads of the process that there are, and those that they start."""

    def __init__(self, value: str) -> None:
        self._is_on = False
        self._before: set[int] = set()
        self._share: set[int] = set()
        self._why_not = "no model was called"

    def install(self, job: JobView) -> None:
        def called(root: object) -> None:
            if self._is_on:
                self._bind()

        job.each_root(called)

    def switch(self, on: bool) -> None:
        was_on, self._is_on = self._is_on, on
        if on:
            self._bind()
        elif was_on and self._share and os.sched_getaffinity(0) == self._share:
            _set_all(self._before)

    def took(self) -> LeverEffect:
        if not self._share:
            return LeverEffect(False, self._why_not)
        if self._is_on and os.sched_getaffinity(0) != self._share:
            return LeverEffect(False, "the script has bound the process itself since")
        return LeverEffect(True, f"cores {_listed(self._share)} of {_listed(self._before)}")

    def _bind(self) -> None:
        now = os.sched_getaffinity(0)
        if now != self._share:
            self._before = now
            self._why_not, self._share = share_of_rank(now)
        if self._share:
            _set_all(self._share)


def share_of_rank(allowed: set[int]) -> tuple[str, set[int]]:
    """The cores of this rank, or why there are none; neighbours go together, as do the two threads of one core."""
    ranks, rank = (os.environ.get(name, "") for name in ("LOCAL_WORLD_SIZE", "LOCAL_RANK"))
    if not (ranks.isdecimal() and rank.isdecimal()) or int(ranks) == 1:
        return "one rank has all cores of the machine", set()
    bound = [name for name in _BOUND_BY if os.environ.get(name, "false").lower() != "false"]
    if bound:
        return f"{bound[0]} binds threads already", set()
    size = len(allowed) // int(ranks)
    if not size:
        return f"{ranks} ranks have {len(allowed)} cores", set()
    cores = sorted(allowed, key=lambda core: (_number(core, "physical_package_id"), _number(core, "core_id"), core))
    return "", set(cores[int(rank) * size : (int(rank) + 1) * size])


def _number(core: int, what: str) -> int:
    with tolerated(OSError, ValueError), open(_TOPOLOGY.format(core, what), encoding="ascii") as file:  # noqa: PTH123
        return int(file.read())
    return 0


def _set_all(cores: set[int]) -> None:
    for thread in os.listdir("/proc/self/task"):  # noqa: PTH208 (pathlib is slow to import)
        with tolerated(OSError):  # it has ended
            os.sched_setaffinity(int(thread), cores)


def _listed(cores: set[int]) -> str:
    return ",".join(map(str, sorted(cores)))
