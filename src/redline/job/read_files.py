"""The same work on every file of a job, in parallel: what it gave for each, and a list of the files that failed."""

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from redline.errors import InputError
from redline.job.executors.executor import ExecutorChoice, ExecutorName, WorkerDied, processes_for
from redline.job.executors.over_files import over_files
from redline.job.read_failures import Failure, attempted, failure_of
from redline.progress import Progress, ProgressStage, silent
from redline.trace.cache import cache_folder
from redline.trace.entries import prune
from redline.trace.reader import OfFile, ReadOptions
from redline.values import dataclass

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """How to read the traces of a job."""

    reading: ReadOptions = field(default_factory=ReadOptions)
    jobs: int | None = None  # processes; None: one per core
    executor: ExecutorName = "pool"
    address: str | None = None  # of a Ray cluster that runs
    use_cache: bool = True
    model: str | None = None  # of a serving engine: a known name or a config.json, by which its steps are rated

    def __post_init__(self) -> None:
        _ = self.executed  # raises UsageError where its parts make no sense together

    @property
    def executed(self) -> ExecutorChoice:
        """Where the files are read."""
        return ExecutorChoice(name=self.executor, address=self.address, jobs=self.jobs)

    @property
    def cache(self) -> Path | None:
        """The folder of the cache; None where none is used."""
        return cache_folder() if self.use_cache else None

    def reading_of(self, paths: Sequence[Path]) -> ReadOptions:
        """How to read each of these files: a single one may take all processes, several are read side by side."""
        is_alone = len(paths) == 1 and self.executor == "pool"  # a task of Ray has one core
        return replace(self.reading, processes=processes_for(self.jobs)) if is_alone else self.reading


def gather(
    work: Callable[[Path], OfFile[Result]],
    paths: Sequence[Path],
    options: JobOptions,
    progress: Progress = silent,
) -> tuple[dict[int, OfFile[Result]], list[Failure]]:
    """The work done on every file, by its index, and what failed. Raises InputError only where nothing succeeded."""
    results: dict[int, OfFile[Result]] = {}
    failures: list[Failure] = []
    errors: dict[int, InputError] = {}
    progress(ProgressStage.READ, 0, len(paths))
    for done, (index, outcome) in enumerate(over_files(partial(attempted, work), paths, options.executed), start=1):
        if isinstance(outcome, InputError | WorkerDied):
            errors[index] = _of_worker(paths[index], outcome)
            if options.reading.strict:
                raise errors[index]
            failures.append(failure_of(paths[index], errors[index]))
        else:
            results[index] = outcome
            failures += [Failure(path=str(paths[index]), message=message) for message in outcome.failures]
        progress(ProgressStage.READ, done, len(paths))
    prune(options.cache)
    if not results:
        raise errors[min(errors)]
    return results, sorted(failures, key=lambda failure: failure.path)


def _of_worker(path: Path, outcome: InputError | WorkerDied) -> InputError:
    return outcome if isinstance(outcome, InputError) else InputError(f"{path}: its reader {outcome}.")
