"""How far long work has come: what every layer tells, and the command line shows."""

from enum import StrEnum
from typing import Protocol


class ProgressStage(StrEnum):
    """What is being done."""

    READ = "read"  # traces or digests, of which some are done
    COMBINE = "combine"  # ranks of a job
    WRITE = "write"  # ranks, of which some are done
    CHECK = "check"  # what was written
    MEASURE = "measure"  # the machine
    COLLECTIVES = "collectives"
    SEARCH = "search"  # layouts
    TIME = "time"  # pairs, of which some are done


class Progress(Protocol):
    """Called while the work goes on, from the thread that does it."""

    def __call__(self, stage: ProgressStage, done: float, total: float) -> None:
        """So much of the total is done; a total of 0 means that nobody knows."""


def silent(stage: ProgressStage, done: float, total: float) -> None:
    """Where nobody looks."""
