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

from redline.calibration.bench import MAD_TO_SIGMA
from redline.calibration.calibration_record import Conditions
from redline.calibration.device import ProbeDevice

UNKNOWN = -1.0
_BEAT_SIZE = 256
_BEATS = 5
_BEAT_NS = 200_000_000
_ENOUGH_TIME_NS = 20_000_000  # of counters that tick a hundred times a second, less says nothing
_LOOK_S = 0.5

# Above these a machine is called noisy: each alone makes two calibrations differ by more than a few percent.
LIMITS: Mapping[str, float] = {
    "steal": 0.02,
    "other": 0.05,
    "throttled": 0.01,
    "load": 0.5,  # per processor
    "frequency": 0.10,
    "beat": 0.05,
    "waited": 0.05,
}


@dataclass(frozen=True, kw_only=True)
class Counters:
    """What the system has counted so far, in seconds of processor time. None: it does not say."""

    all_s: float | None = None
    idle_s: float | None = None
    steal_s: float | None = None
    ours_s: float = 0.0
    throttled_s: float | None = None
    ran_s: float | None = None  # by threads of this process that are still there
    waited_s: float | None = None  # by the same threads, ready to run, for a processor
    wall_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Start:
    """When a calibration began, and what the machine was like: before our own processes are a load."""

    date: str
    load: float
    counters: Counters
    other_share: float = UNKNOWN  # of the processors' time over a short beat in which we did nothing
    quota: float = UNKNOWN
    processors: int = 1

    @property
    def seconds(self) -> float:
        """Since then."""
        return time.monotonic() - self.counters.wall_s


def start_now(root: Path = Path("/"), look_s: float = _LOOK_S) -> Start:
    """Looks at the machine for a moment in which we do nothing."""
    date = datetime.now(UTC).isoformat(timespec="seconds")
    before = read_counters(root)
    time.sleep(look_s)
    return Start(
        date=date,
        load=read_load(root),
        counters=before,
        other_share=_others_share(before, read_counters(root)),
        quota=read_quota(root),
        processors=len(os.sched_getaffinity(0)),
    )


def seen(start: Start) -> str:
    """One line for people: how busy the machine is before anything is measured, and what that means."""
    count = f"{start.processors} processor{'s' if start.processors != 1 else ''}"
    facts = [] if start.load < 0 else [f"load {start.load:.1f} on {count}"]
    facts += [] if start.other_share < 0 else [f"other processes use {100 * start.other_share:.0f} % of them"]
    facts += [] if start.quota < 0 else [f"a quota allows {start.quota:g}"]
    if not facts:
        return "the system does not say how busy the machine is"
    is_busy = start.load / start.processors > LIMITS["load"]  # of the last minute; what is so now says more
    is_busy = start.other_share > LIMITS["other"] if start.other_share >= 0 else is_busy
    is_held = 0 <= start.quota < start.processors
    advice = "busy, so some figures may not be usable" if is_busy or is_held else "quiet"
    return f"{', '.join(facts)}: {advice}"


class Watch:
    """Watches the machine from the start until it is asked for the conditions."""

    def __init__(self, device: ProbeDevice, start: Start, *, root: Path = Path("/")) -> None:
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
            self._timed_ns(_BEATS)
        self._beats.append(float(np.median(self._timed_ns(_BEATS))))
        self._frequencies += [max(clocks)] if (clocks := read_frequencies(self._root)) else []  # others may idle

    def _timed_ns(self, count: int) -> list[float]:
        """Fewer where each takes long, as on a busy machine."""
        assert self._call is not None
        times_ns = [self._device.timed_ns(self._call, 3)]
        while len(times_ns) < count and sum(times_ns) * 3 < _BEAT_NS:
            times_ns.append(self._device.timed_ns(self._call, 3))
        return times_ns

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
            other_before=self._start.other_share,
            quota=self._start.quota,
        )


def _beat_call(device: ProbeDevice) -> Callable[[], object]:
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
    other_before: float = UNKNOWN,
    quota: float = UNKNOWN,
) -> Conditions:
    """What lies between two readings, and which of it is too much."""
    throttled_s = _between(before.throttled_s, after.throttled_s)
    waited_s, ran_s = _between(before.waited_s, after.waited_s), _between(before.ran_s, after.ran_s)
    shares = {
        "steal": _share(_between(before.steal_s, after.steal_s), _between(before.all_s, after.all_s)),
        "other": _others_share(before, after),
        "throttled": _share(throttled_s, after.wall_s - before.wall_s),
        "load": load_before / processors,
        "frequency": frequency_drop,
        "beat": beat_spread,
        "waited": UNKNOWN if waited_s is None or ran_s is None else _share(waited_s, waited_s + ran_s),
    }
    return Conditions(
        steal_share=shares["steal"],
        other_share=shares["other"],
        throttled_share=shares["throttled"],
        load_before=load_before,
        frequency_drop=frequency_drop,
        beat_spread=beat_spread,
        noisy=tuple(name for name, share in shares.items() if share > LIMITS[name]),
        waited_share=shares["waited"],
        other_before=other_before,
        quota=quota,
    )


def _others_share(before: Counters, after: Counters) -> float:
    all_s, idle_s = _between(before.all_s, after.all_s), _between(before.idle_s, after.idle_s)
    if all_s is None or idle_s is None:
        return UNKNOWN
    steal_s = _between(before.steal_s, after.steal_s) or 0.0
    return _share(max(0.0, all_s - idle_s - steal_s - (after.ours_s - before.ours_s)), all_s)


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
    return Counters(
        **_processor_seconds(root),
        **_scheduled_seconds(root),
        ours_s=ours_s,
        throttled_s=_throttled_s(root),
        wall_s=time.monotonic(),
    )


def _scheduled_seconds(root: Path) -> dict[str, float]:
    """All threads of this process: time on a processor, and ready to run but waiting for one, both counted in ns."""
    ran_ns = waited_ns = 0
    with suppress(OSError, ValueError, IndexError):
        for path in sorted((root / "proc/self/task").iterdir()):
            with suppress(FileNotFoundError, ProcessLookupError):  # a thread that ended meanwhile
                words = (path / "schedstat").read_text().split()
                ran_ns, waited_ns = ran_ns + int(words[0]), waited_ns + int(words[1])
        return {"ran_s": ran_ns / 1e9, "waited_s": waited_ns / 1e9} if ran_ns else {}
    return {}


def _processor_seconds(root: Path) -> dict[str, float]:
    """Of the processors that we may use: user, nice, system, idle, iowait, irq, softirq, steal, ..."""
    names = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    with suppress(OSError, ValueError, IndexError):
        rows = [line.split() for line in (root / "proc/stat").read_text().splitlines() if line.startswith("cpu")]
        chosen = [row for row in rows if row[0] in names] or rows[:1]  # the first line is the sum of all
        ticks = [sum(column) for column in zip(*([int(word) for word in row[1:9]] for row in chosen), strict=True)]
        per_s = os.sysconf("SC_CLK_TCK")
        return {"all_s": sum(ticks) / per_s, "idle_s": (ticks[3] + ticks[4]) / per_s, "steal_s": ticks[7] / per_s}
    return {}


def _throttled_s(root: Path) -> float | None:
    """Throttled time of the control group, in its second version and its first."""
    for path, name, per_s in (
        ("sys/fs/cgroup/cpu.stat", "throttled_usec", 1e6),
        ("sys/fs/cgroup/cpu/cpu.stat", "throttled_time", 1e9),
    ):
        with suppress(OSError, ValueError):
            counted = dict(line.split() for line in (root / path).read_text().splitlines() if line.strip())
            if name in counted:
                return int(counted[name]) / per_s
    return None


def read_quota(root: Path = Path("/")) -> float:
    """Processors' worth of time that the control group allows, in its second version and its first."""
    with suppress(OSError, ValueError, IndexError):
        allowed, period = (root / "sys/fs/cgroup/cpu.max").read_text().split()
        return UNKNOWN if allowed == "max" else int(allowed) / int(period)
    with suppress(OSError, ValueError):
        folder = root / "sys/fs/cgroup/cpu"
        allowed_us = int((folder / "cpu.cfs_quota_us").read_text())
        return UNKNOWN if allowed_us <= 0 else allowed_us / int((folder / "cpu.cfs_period_us").read_text())
    return UNKNOWN


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
