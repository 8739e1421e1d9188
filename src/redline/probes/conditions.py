"""What else the machine did while it was measured: stolen time, other processes, clocks, and a beat that sums it up."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from redline.probes.device import Device
from redline.probes.record import Conditions
from redline.probes.statistics import MAD_TO_SIGMA

UNKNOWN = -1.0
_BEAT_SIZE = 256
_BEATS = 5
_ENOUGH_TIME_NS = 20_000_000  # of counters that tick a hundred times a second, less says nothing

# Above these a machine is called noisy: each alone makes two calibrations differ by more than a few percent.
LIMITS: Mapping[str, float] = {
    "steal": 0.02,
    "other": 0.05,
    "throttled": 0.01,
    "load": 0.5,  # per processor
    "frequency": 0.10,
    "beat": 0.05,
}


@dataclass(frozen=True, kw_only=True)
class Counters:
    """What the system has counted so far, in seconds of processor time. None: it does not say."""

    all_s: float | None = None
    idle_s: float | None = None
    steal_s: float | None = None
    ours_s: float = 0.0
    throttled_s: float | None = None
    wall_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Start:
    """When a calibration began, and what the machine was like: before our own processes are a load."""

    date: str
    load: float
    counters: Counters

    @property
    def seconds(self) -> float:
        """Since then."""
        return time.monotonic() - self.counters.wall_s


def start_now(root: Path = Path("/")) -> Start:
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return Start(date=date, load=read_load(root), counters=read_counters(root))


class Watch:
    """Watches the machine from the start until it is asked for the conditions."""

    def __init__(self, device: Device, start: Start, *, root: Path = Path("/")) -> None:
        self._device = device
        self._root = root
        self._start = start
        self._frequencies: list[float] = []
        self._beats: list[float] = []
        self._call: Callable[[], object] | None = None

    def beat(self) -> None:
        """Time the same short piece of work once more."""
        if self._call is None:
            self._call = _beat_call(self._device)
            self._device.timed_ns(self._call, 10)
        self._beats.append(float(np.median([self._device.timed_ns(self._call, 3) for _ in range(_BEATS)])))
        self._frequencies += [max(clocks)] if (clocks := read_frequencies(self._root)) else []  # others may idle

    def noise(self) -> float:
        """How far the beat varied so far, as a share of its median."""
        return spread(self._beats)

    def conditions(self) -> Conditions:
        return judge(
            self._start.counters,
            read_counters(self._root),
            load_before=self._start.load,
            frequency_drop=drop(self._frequencies),
            beat_spread=self.noise(),
            processors=os.cpu_count() or 1,
        )


def _beat_call(device: Device) -> Callable[[], object]:
    import torch

    left = torch.ones(_BEAT_SIZE, _BEAT_SIZE, device=device.torch_device)
    out = torch.empty_like(left)
    return lambda: torch.mm(left, left, out=out)


def spread(beats: Sequence[float]) -> float:
    """The standard deviation as a share of the median, by what is usual: a few interruptions do not move medians."""
    if not beats:
        return 0.0
    middle = np.median(beats)
    return float(MAD_TO_SIGMA * np.median(np.abs(np.asarray(beats) - middle)) / middle)


def drop(frequencies: Sequence[float]) -> float:
    return 1 - min(frequencies) / max(frequencies) if frequencies and max(frequencies) > 0 else UNKNOWN


def judge(
    before: Counters,
    after: Counters,
    *,
    load_before: float,
    frequency_drop: float,
    beat_spread: float,
    processors: int,
) -> Conditions:
    """What lies between two readings, and which of it is too much."""
    all_s = _between(before.all_s, after.all_s)
    steal_s, idle_s = _between(before.steal_s, after.steal_s), _between(before.idle_s, after.idle_s)
    ours_s = after.ours_s - before.ours_s
    throttled_s = _between(before.throttled_s, after.throttled_s)
    others_s = None if all_s is None or idle_s is None else max(0.0, all_s - idle_s - (steal_s or 0.0) - ours_s)
    shares = {
        "steal": _share(steal_s, all_s),
        "other": _share(others_s, all_s),
        "throttled": _share(throttled_s, after.wall_s - before.wall_s),
        "load": load_before / processors,
        "frequency": frequency_drop,
        "beat": beat_spread,
    }
    return Conditions(
        steal_share=shares["steal"],
        other_share=shares["other"],
        throttled_share=shares["throttled"],
        load_before=load_before,
        frequency_drop=frequency_drop,
        beat_spread=beat_spread,
        noisy=tuple(name for name, share in shares.items() if share > LIMITS[name]),
    )


def _between(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _share(part_s: float | None, whole_s: float | None) -> float:
    if part_s is None or whole_s is None or whole_s * 1e9 < _ENOUGH_TIME_NS:
        return UNKNOWN
    return max(0.0, part_s / whole_s)


# --- what the system says ---------------------------------------------------------------------------------------------


def read_counters(root: Path = Path("/")) -> Counters:
    times = os.times()
    ours_s = times.user + times.system + times.children_user + times.children_system
    return Counters(**_processor_seconds(root), ours_s=ours_s, throttled_s=_throttled_s(root), wall_s=time.monotonic())


def _processor_seconds(root: Path) -> dict[str, float]:
    """The first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal, ..."""
    with suppress(OSError, ValueError, IndexError):
        first = (root / "proc/stat").read_text().split("\n", maxsplit=1)[0]
        ticks = [int(word) for word in first.split()[1:9]]
        per_s = os.sysconf("SC_CLK_TCK")
        return {"all_s": sum(ticks) / per_s, "idle_s": (ticks[3] + ticks[4]) / per_s, "steal_s": ticks[7] / per_s}
    return {}


def _throttled_s(root: Path) -> float | None:
    """Of the control group, in its second version and its first."""
    for path, name, per_s in (
        ("sys/fs/cgroup/cpu.stat", "throttled_usec", 1e6),
        ("sys/fs/cgroup/cpu/cpu.stat", "throttled_time", 1e9),
    ):
        with suppress(OSError, ValueError):
            counted = dict(line.split() for line in (root / path).read_text().splitlines() if line.strip())
            if name in counted:
                return int(counted[name]) / per_s
    return None


def read_frequencies(root: Path = Path("/")) -> list[float]:
    """Clock frequencies of the processors just now. A virtual machine often says one figure that never changes."""
    with suppress(OSError, ValueError):
        lines = (root / "proc/cpuinfo").read_text().splitlines()
        return [float(line.partition(":")[2]) for line in lines if line.startswith("cpu MHz")]
    return []


def read_load(root: Path = Path("/")) -> float:
    """Processes that want to run, on average over the last minute."""
    with suppress(OSError, ValueError, IndexError):
        return float((root / "proc/loadavg").read_text().split()[0])
    return UNKNOWN
