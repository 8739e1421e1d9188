"""What machine a job ran on: as the system says, and of accelerators, as the processes of the job did."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from redline.capture.run_record import RankRecord


def machine(own: Sequence[RankRecord]) -> dict[str, Any]:
    accelerators = sorted({name for rank_record in own for name in rank_record.facts.get("accelerators", [])})
    return {
        "cpu": processor_name(),
        "cores": len(os.sched_getaffinity(0)),
        "memory": _field_of("/proc/meminfo", "MemTotal"),
        "system": f"{platform.system()} {platform.release()}",
        "accelerators": accelerators,
    }


def processor_name() -> str:
    return _field_of("/proc/cpuinfo", "model name") or platform.processor()


def _field_of(path: str, name: str) -> str:
    with suppress(OSError):
        for line in Path(path).read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(name):
                return line.partition(":")[2].strip()
    return ""
