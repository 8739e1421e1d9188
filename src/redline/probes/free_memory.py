"""How much memory a probe may take on the host: what the machine has left, and what the limit of a container leaves."""

from contextlib import suppress
from pathlib import Path

from redline.launch.process import available_bytes

# Of control groups in their second version and their first: the limit, what is used, and what makes that up.
_FILES = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
)


def free_bytes(groups: Path = Path("/sys/fs/cgroup")) -> int:
    left = _left_by_limit(groups)
    return available_bytes() if left is None else min(available_bytes(), left)


def _left_by_limit(groups: Path) -> int | None:
    """None where there is no limit. Pages of files that nobody used lately are given back when memory is asked for."""
    for limit, used, parts, reclaimable in _FILES:
        with suppress(OSError, ValueError):  # a limit that reads "max" is none
            counted = dict(line.split() for line in (groups / parts).read_text().splitlines() if line.strip())
            in_use = int((groups / used).read_text()) - int(counted.get(reclaimable, 0))
            return max(0, int((groups / limit).read_text()) - in_use)
    return None
