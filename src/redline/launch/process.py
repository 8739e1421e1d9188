"""What the system says of processes: whether one lives, and how much memory this one has."""

from __future__ import annotations

import os


def is_alive(pid: int) -> bool:
    """Whether it runs. One that has ended may stay in the list of processes where nobody asks how it ended."""
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 (pathlib is slow to import)
            return pid > 0 and not file.read().rpartition(b")")[2].startswith(b" Z")
    except OSError:
        return False


def resident_bytes() -> int:
    """The memory of this process."""
    return _kilobytes("/proc/self/status", b"VmRSS") * 1024


def peak_bytes() -> int:
    """The most memory that this process had. `getrusage` tells more: it counts that of the launcher before exec."""
    return _kilobytes("/proc/self/status", b"VmHWM") * 1024


def available_bytes() -> int:
    """What the machine could still give."""
    return _kilobytes("/proc/meminfo", b"MemAvailable") * 1024


def _kilobytes(path: str, name: bytes) -> int:
    """0 where the system does not say."""
    with open(path, "rb") as file:  # noqa: PTH123 (pathlib is slow to import, and this runs in the user's process)
        return next((int(line.split()[1]) for line in file if line.startswith(name)), 0)
