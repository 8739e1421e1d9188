"""Who this process is in a job that another launcher started: torchrun, Slurm, MPI or Ray, by its environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

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


@dataclass(frozen=True, kw_only=True)
class Position:
    """A process among those of its job."""

    launcher: str
    rank: int
    world: int
    local_rank: int
    job: str
    """The same for all processes of the job, and as far as the launcher says, for no other job."""


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
