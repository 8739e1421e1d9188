"""How large the caches of the processors are that this process may use, as Linux tells it."""

import os
from pathlib import Path

_PROCESSORS = Path("/sys/devices/system/cpu")
_USUAL_BYTES = 32 << 20
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def last_level_bytes(processors: Path = _PROCESSORS) -> int:
    """All caches of the last level together: a processor may have one per group of cores. 32 MiB where unknown."""
    caches = dict(
        cache for number in sorted(os.sched_getaffinity(0)) if (cache := _last(processors / f"cpu{number}" / "cache"))
    )
    return sum(caches.values()) or _USUAL_BYTES


def _last(folder: Path) -> tuple[str, int] | None:
    """Which processors share the last cache of this one, and its size."""
    caches = [(_text(index / "level"), index) for index in folder.glob("index*")]
    level, index = max(caches, default=("", folder))
    units = _text(index / "size")
    if not level or not units[:-1].isdigit() or units[-1] not in _UNITS:
        return None
    return _text(index / "shared_cpu_list"), int(units[:-1]) * _UNITS[units[-1]]


def _text(path: Path) -> str:
    return path.read_text().strip() if path.is_file() else ""
