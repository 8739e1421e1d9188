"""The same function over many files, on any executor: second tries for files whose worker died, and for stragglers."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from itertools import count
from pathlib import Path
from statistics import median
from typing import Generic, TypeVar

from redline.errors import InputError
from redline.job.executors.executor import Executor, ExecutorChoice, WorkerDied, processes_for
from redline.storage import ahead
from redline.values import dataclass

Result = TypeVar("Result")
WORTH_BYTES = 8_000_000  # of compressed traces; less is read sooner than processes start
_LOOK_S = 0.5  # between looks for stragglers
_SMALLEST_BYTES = 1_000_000  # smaller files take as long as this one: opening them is most of the work


@dataclass(kw_only=True)
class Pace:
    """How long finished tasks took, and which running one takes so much longer that a second start is worth a process.

    The rule: nothing waits to be started, at least 3 tasks have finished, and the task has run for more than 10 s and
    for more than 4 times as long as a file of its size takes (the median time per byte of the tasks that finished). It
    is started a second time, once; the first of the two to finish wins, and the other is ended.
    """

    sizes_bytes: Sequence[int]  # of every file
    floor_s: float = 10.0
    factor: float = 4.0
    enough: int = 3
    _s_per_byte: list[float] = field(default_factory=list)

    def finished(self, index: int, took_s: float) -> None:
        self._s_per_byte.append(took_s / self._size_bytes(index))

    def patience_s(self, index: int) -> float:
        """For how long a task on this file may run before it is a straggler."""
        if len(self._s_per_byte) < self.enough:
            return float("inf")
        return max(self.floor_s, self.factor * median(self._s_per_byte) * self._size_bytes(index))

    def _size_bytes(self, index: int) -> int:
        return max(self.sizes_bytes[index], _SMALLEST_BYTES)


def over_files(
    work: Callable[[Path], Result], paths: Sequence[Path], choice: ExecutorChoice | None = None
) -> Iterator[tuple[int, Result | InputError | WorkerDied]]:
    """Index and result for each path, in the order in which they finish."""
    choice = choice or ExecutorChoice()
    sizes_bytes = [_size_bytes(path) for path in paths]
    if not paths or _is_done_here(choice, sizes_bytes):
        for index, path in enumerate(ahead(paths)):
            yield index, work(path)
        return
    with _opened(choice, work, paths) as executor:
        yield from FileScheduler(executor, paths, Pace(sizes_bytes=sizes_bytes)).outcomes()


def _is_done_here(choice: ExecutorChoice, sizes_bytes: Sequence[int]) -> bool:
    """True if other processes would cost more than they save; who asks for Ray gets it."""
    if choice.name != "pool":
        return False
    is_little = choice.jobs is None and sum(sizes_bytes) < WORTH_BYTES
    return is_little or min(processes_for(choice.jobs), len(sizes_bytes)) <= 1


def _opened(choice: ExecutorChoice, work: Callable[[Path], Result], paths: Sequence[Path]) -> Executor[Result]:
    if choice.name == "ray":
        from redline.job.executors.ray_tasks import RayTasks  # an extra

        return RayTasks(work, choice, len(paths))
    from redline.job.executors.process_pool import ProcessPool  # a fifth of the import of a verb: many read one file

    return ProcessPool(work, min(processes_for(choice.jobs), len(paths)))


class FileScheduler(Generic[Result]):
    """The tasks of one run over files: what waits, what runs, and what needs a second try."""

    def __init__(self, executor: Executor[Result], paths: Sequence[Path], pace: Pace) -> None:
        self._executor, self._paths, self._pace = executor, paths, pace
        self._waiting = list(reversed(range(len(paths))))
        self._running: dict[int, tuple[int, float]] = {}  # the index of its file and when it began, by task
        self._numbers = count()
        self._copied: set[int] = set()  # files whose task was started a second time

    def outcomes(self) -> Iterator[tuple[int, Result | InputError | WorkerDied]]:
        """Index and result for each path. A file whose worker died is tried again when nothing else runs."""
        suspects: list[int] = []
        while self._waiting or self._running:
            self._start_more()
            for index, outcome in self._ended():
                if isinstance(outcome, WorkerDied):
                    suspects.append(index)
                else:
                    yield index, outcome
        for index in suspects:  # it may have killed its worker: alone, it can only harm itself
            self._start(index)
            while self._running:
                yield from self._ended()

    def _start_more(self) -> None:
        while self._waiting and len(self._running) < self._executor.slots:
            self._start(self._waiting.pop())
        if self._waiting:
            return
        for index, since_s in list(self._running.values()):
            is_late = index not in self._copied and time.monotonic() - since_s > self._pace.patience_s(index)
            if is_late and len(self._running) < self._executor.slots:
                self._copied.add(index)
                self._start(index)

    def _start(self, index: int) -> None:
        task = next(self._numbers)
        self._running[task] = index, time.monotonic()
        self._executor.start(task, self._paths[index])

    def _ended(self) -> Iterator[tuple[int, Result | InputError | WorkerDied]]:
        """The tasks that ended, of two on one file the first; a death counts once nobody else is at its file."""
        is_idle = not self._waiting and len(self._running) < self._executor.slots
        for task, outcome in self._executor.wait(_LOOK_S if is_idle else None):
            running = self._running.pop(task, None)
            if running is None:  # the other one on this file was faster
                continue
            index, since_s = running
            others = [other for other, (its_index, _) in self._running.items() if its_index == index]
            if isinstance(outcome, WorkerDied) and others:
                continue
            for other in others:
                del self._running[other]
                self._executor.abandon(other)
            if not isinstance(outcome, WorkerDied):
                self._pace.finished(index, time.monotonic() - since_s)
            yield index, outcome


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # reading it says what is wrong
        return 0
