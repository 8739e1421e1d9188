"""Processes and their machine, by the system: whether one lives, its memory, and which files it may open."""

from __future__ import annotations

import fcntl
import os

from redline.capture.worker.exception_origin import tolerated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

open_file = open  # as it was before the script began, which may put another in its place
open_descriptor, read_descriptor, close_descriptor = os.open, os.read, os.close
FIRST_FOR_THE_OOM_KILLER = "1000"  # as /proc/PID/oom_score_adj takes it
BEGINS_WITHIN_S = 1.0  # a thread of ours, on a crowded machine
_OUT_OF_THE_WAY = 99  # or the highest number that there is
_GROUPS = "/sys/fs/cgroup"
# Of control groups in their second version and their first: the limit, what is used, and what of that is given back.
_OF_GROUPS = (
    (b"memory.max", b"memory.current", b"inactive_file"),
    (b"memory.limit_in_bytes", b"memory.usage_in_bytes", b"total_inactive_file"),
)
_LIMITS = "/proc/self/limits"
_AS, _DATA = b"Max address space", b"Max data size"
_NAME_LETTERS = 26  # of a limit, in that file


def is_alive(pid: int) -> bool:
    """True while it runs. One that has ended may stay in the list of processes where nobody asks how it ended."""
    with tolerated(OSError):
        os.kill(pid, 0)
        with open_file(f"/proc/{pid}/stat", "rb") as file:
            return pid > 0 and not file.read().rpartition(b")")[2].startswith(b" Z")
    return False


def files_may_end_us() -> bool:
    """Writing beyond the size that files may have would end this process: Python ignores the signal for it,
    and a script may have undone that."""
    import resource
    import signal

    is_limited = resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY
    return is_limited and signal.getsignal(signal.SIGXFSZ) is not signal.SIG_IGN


def resident_bytes() -> int:
    """The memory of this process."""
    return _kilobytes("/proc/self/status", b"VmRSS") * 1024


def peak_bytes() -> int:
    """The most memory that this process had. `getrusage` tells more: it counts that of the launcher before exec."""
    return _kilobytes("/proc/self/status", b"VmHWM") * 1024


def available_bytes(groups: str = _GROUPS) -> int:
    """Memory that the machine could still give, within the limits of the control groups of this process."""
    left = [_kilobytes("/proc/meminfo", b"MemAvailable") * 1024]
    for folder in control_groups("memory", groups):
        for names in _OF_GROUPS:
            with tolerated(OSError, ValueError):  # a limit that reads "max" is none
                left.append(_left_in(folder, *names))
    return max(0, min(left))


def _left_in(folder: str, limit: bytes, used: bytes, given_back: bytes) -> int:
    """Pages of files that nobody used lately are given back when memory is asked for."""
    most_bytes, used_bytes = (int(system_file(f"{folder}/{name.decode()}")) for name in (limit, used))
    lines = system_file(f"{folder}/memory.stat", 1 << 14).splitlines()
    return most_bytes - used_bytes + next((int(line.split()[1]) for line in lines if line.startswith(given_back)), 0)


def control_groups(controller: str, groups: str = _GROUPS) -> Iterator[str]:
    """Folders of the control groups that may limit this process, from its own up to the root."""
    known = ""
    with tolerated(OSError):
        known = system_file("/proc/self/cgroup").decode("ascii", "replace")
    for line in known.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        root = f"{groups}/{controllers}" if controllers else groups
        while True:
            yield root + path.rstrip("/")
            if path in ("", "/"):
                break
            path = path.rpartition("/")[0]


def has_memory_limit() -> bool:
    """True if what the process maps is limited (`ulimit -v`, `ulimit -d`): every thread then takes of it, for good."""
    with tolerated(OSError):
        return bool(_memory_limits())
    return True


def room_bytes() -> int:
    """How much more memory this process may take: more than the most that it has had, which it may need again."""
    names = (b"VmPeak", b"VmSize", b"VmHWM", b"VmRSS", b"VmData")
    peak, now, resident_peak, resident, data = (1024 * _kilobytes("/proc/self/status", name) for name in names)
    used = {_AS: peak, _DATA: data + peak - now}
    left = [most_bytes - used[limit] for limit, most_bytes in _memory_limits().items()]
    return min([available_bytes() - (resident_peak - resident), *left])


def _memory_limits() -> dict[bytes, int]:
    """Those that are set."""
    lines = system_file(_LIMITS).splitlines()
    most = {line[:_NAME_LETTERS].rstrip(): line[_NAME_LETTERS:].split()[0] for line in lines}
    return {limit: int(most[limit]) for limit in (_AS, _DATA) if most.get(limit, b"unlimited") != b"unlimited"}


def has_bf16_units() -> bool:
    """True if this CPU has instructions for bfloat16: without, it computes them as float32, after conversion."""
    with open_file("/proc/cpuinfo", "rb") as file:
        named = next((line for line in file if line.startswith((b"flags", b"Features"))), b"")
    return not {b"avx512_bf16", b"amx_bf16", b"bf16"}.isdisjoint(named.split())


def _kilobytes(path: str, name: bytes) -> int:
    """0 where the system does not say."""
    with open_file(path, "rb") as file:
        return next((int(line.split()[1]) for line in file if line.startswith(name)), 0)


def system_file(path: str, most_bytes: int = 4096) -> bytes:
    """Read a small file of the kernel in three calls: it is done between two steps."""
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
