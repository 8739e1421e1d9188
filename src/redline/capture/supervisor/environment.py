"""Where a run takes place: the launcher around it, the machine, and the folder with its name."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

from redline.capture.run_record import NAME, RankRecord
from redline.storage import path_of_this_machine

# Rank, world, rank on this machine, and what all processes of the job have in common.
_LAUNCHERS = {
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK", ("TORCHELASTIC_RUN_ID", "MASTER_PORT", "MASTER_ADDR")),
    "slurm": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", ("SLURM_JOB_ID", "SLURM_STEP_ID")),
    "openmpi": (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
    ),
    "mpi": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", ("PMI_JOBID", "HYDI_CONTROL_FD")),
}
RUNS = Path("redline-runs")
CAPTURE = "capture"  # a file of this name asks for a window


@dataclass(frozen=True, kw_only=True)
class Position:
    """A process among those of its job."""

    launcher: str
    rank: int
    world: int
    local_rank: int
    job: str  # the same for all processes of the job, and as far as the launcher says, for no other job


def position(environment: Mapping[str, str] = os.environ) -> Position | None:
    """Where an existing launcher has put this process; None where there is no launcher."""
    for launcher, (rank, world, local, common) in _LAUNCHERS.items():
        numbers = [environment.get(name, "") for name in (rank, world)]
        if all(number.isdecimal() for number in numbers):
            told = [environment[name] for name in common if environment.get(name, "none") != "none"]
            job = "-".join(told[:2])
            return Position(
                launcher=launcher,
                rank=int(numbers[0]),
                world=int(numbers[1]),
                local_rank=int(environment.get(local) or 0),
                job=re.sub(r"[^A-Za-z0-9.]+", "-", job) or "job",
            )
    return None


def choose(script: str, where: Position | None, named: str | None, job: str | None = None) -> Path:
    """The folder that the user named, or a new one; all watchers of a job choose the same, as far as they can know."""
    if named is not None:
        return path_of_this_machine(named, "run: the folder of a run")
    stem = re.sub(r"[^\w.-]+", "-", Path(script).stem) or "run"
    if job is not None:
        return unused_folder(
            RUNS / f"{stem}-{re.sub(r'[^A-Za-z0-9.]+', '-', job)}", lambda path: (path / NAME).exists()
        )
    if where is None:
        return unused_folder(RUNS / f"{stem}-{time.strftime('%Y%m%d-%H%M%S')}", lambda path: path.exists())
    # The other processes may be here already; a record is there only once a run is over.
    return unused_folder(RUNS / f"{stem}-{where.launcher}-{where.job}", lambda path: (path / NAME).exists())


def unused_folder(path: Path, is_used: Callable[[Path], bool]) -> Path:
    """This one, or the first of PATH-2, PATH-3, ... that is not used."""
    others = (path.with_name(f"{path.name}-{number}") for number in count(2))
    return next(candidate for candidate in chain([path], others) if not is_used(candidate))


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
