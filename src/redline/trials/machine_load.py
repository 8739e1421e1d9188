"""How much of the machine others used while something was timed."""

import os
import time
from pathlib import Path

BUSY = 0.10  # of the cores used by others: enough to be named

_BUSY_FIELDS = (0, 1, 2, 5, 6, 7)  # of /proc/stat: user, nice, system, irq, softirq, steal


class MachineLoad:
    """From its making on."""

    def __init__(self) -> None:
        self._busy_s = _busy_s()
        self._started_s = time.perf_counter()

    def of_others(self, own_cpu_s: float) -> float | None:
        """Their share of all cores; None where the system does not say."""
        if self._busy_s is None or (now_s := _busy_s()) is None:
            return None
        others_s = now_s - self._busy_s - own_cpu_s
        all_s = (time.perf_counter() - self._started_s) * (os.cpu_count() or 1)
        return min(max(others_s / all_s, 0.0), 1.0) if all_s > 0 else None


def _busy_s() -> float | None:
    try:
        fields = Path("/proc/stat").read_text().partition("\n")[0].split()[1:]
        return sum(int(fields[at]) for at in _BUSY_FIELDS) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
