"""The interface of an executor: it starts tasks, each the same work on one file, and hands back their results."""

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol, Self, TypeVar, get_args

from redline.errors import InputError, UsageError
from redline.values import dataclass

Result_co = TypeVar("Result_co", covariant=True)
ExecutorName = Literal["pool", "ray"]
EXECUTORS: tuple[ExecutorName, ...] = get_args(ExecutorName)


class WorkerDied(Exception):  # noqa: N818 (an outcome that is passed on, not raised)
    """The process that worked on a file ended before it was done, even when it had the machine to itself: `str` says
    how, such as "was ended by SIGKILL"."""


class Executor(Protocol[Result_co]):
    """Runs tasks side by side. They are numbered by who starts them, and their results come in any order."""

    @property
    def slots(self) -> int:
        """How many tasks may run at once."""

    def start(self, task: int, path: Path) -> None: ...

    def wait(self, timeout_s: float | None) -> Sequence[tuple[int, Result_co | InputError | WorkerDied]]:
        """The tasks that ended since; none where that takes longer than `timeout_s`. An InputError is one of the
        executor's own: it could not get at the file."""

    def abandon(self, task: int) -> None:
        """End a task whose result nobody wants any more."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End what still runs."""


@dataclass(frozen=True, kw_only=True)
class ExecutorChoice:
    """Which executor does the work, and on how many processes at once."""

    name: ExecutorName = "pool"
    address: str | None = None  # of a Ray cluster that runs; None starts one on this machine
    jobs: int | None = None  # None: one per core, of this machine or of the cluster

    def __post_init__(self) -> None:
        if self.name not in EXECUTORS:
            raise UsageError(f"`executor=...` can be {' or '.join(EXECUTORS)}, not {self.name!r}")
        if self.address is not None and self.name != "ray":
            raise UsageError("`address=...` is that of a Ray cluster, and goes with `executor=ray`")


def processes_for(jobs: int | None) -> int:
    """How many processes of this machine may work at once: as many as asked for, else one per core."""
    return jobs or len(os.sched_getaffinity(0))
