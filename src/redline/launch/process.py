"""What the system says of processes and their machine: whether one lives, its memory, and which files it may open."""

from __future__ import annotations

import fcntl
import os

from redline.launch.inside.exception_origin import tolerated

open_file = open  # as it was before the script began, which may put another in its place
open_descriptor, read_descriptor, close_descriptor = os.open, os.read, os.close
_OUT_OF_THE_WAY = 99  # or the highest number that there is


def is_alive(pid: int) -> bool:
    """Whether it runs. One that has ended may stay in the list of processes where nobody asks how it ended."""
    with tolerated(OSError):
        os.kill(pid, 0)
        with open_file(f"/proc/{pid}/stat", "rb") as file:
            return pid > 0 and not file.read().rpartition(b")")[2].startswith(b" Z")
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


def has_bf16_units() -> bool:
    """Whether this CPU has instructions for bfloat16: without, it computes them as float32, after conversion."""
    with open_file("/proc/cpuinfo", "rb") as file:
        named = next((line for line in file if line.startswith((b"flags", b"Features"))), b"")
    return not {b"avx512_bf16", b"amx_bf16", b"bf16"}.isdisjoint(named.split())


def _kilobytes(path: str, name: bytes) -> int:
    """0 where the system does not say."""
    with open_file(path, "rb") as file:
        return next((int(line.split()[1]) for line in file if line.startswith(name)), 0)


def system_file(path: str, most_bytes: int = 4096) -> bytes:
    """What a small file of the kernel says, in three calls: it is read between two steps."""
    descriptor = open_descriptor(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return read_descriptor(descriptor, most_bytes)
    finally:
        close_descriptor(descriptor)


def out_of_the_way(descriptor: int) -> int:
    """The same file under a number that the script is not about to get for its own, if there is one."""
    with tolerated(OSError):
        most = min(_OUT_OF_THE_WAY, os.sysconf("SC_OPEN_MAX") - 1)
        another = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, most)
        os.close(descriptor)
        return another
    return descriptor
