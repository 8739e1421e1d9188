"""All ranks of a job, one summary each: read in parallel, placed in order, their clocks compared."""

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import redline
from redline.artifacts.masking import masked
from redline.errors import InputError, UnexpectedError, first_line
from redline.trace.cache import cache_folder, read_cached
from redline.trace.clocks import Clocks, align
from redline.trace.collectives import matched
from redline.trace.entries import prune
from redline.trace.pool import WorkerDied, over_files, processes_for
from redline.trace.ranks import job_ranks
from redline.trace.reader import ReadOptions
from redline.trace.summary import RankSummary, summarise

Result = TypeVar("Result")
_PACKAGE = Path(redline.__file__).parent
_LONGEST_REASON = 120  # letters, so that reports do not cut off what follows
Progress = Callable[[int, int], None]  # files done, files in all


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """How to read the traces of a job."""

    reading: ReadOptions = field(default_factory=ReadOptions)
    jobs: int | None = None  # processes; None: one per core
    use_cache: bool = True

    def reading_of(self, paths: Sequence[Path]) -> ReadOptions:
        """How to read each of these files: a single one may take all processes, several are read side by side."""
        return replace(self.reading, processes=processes_for(self.jobs)) if len(paths) == 1 else self.reading


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A file, or a member of an archive, that could not be read or analysed."""

    path: str
    message: str
    traceback: str = ""  # where the failure is a bug of Redline

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", masked(self.message))  # it may quote the file


@dataclass(frozen=True, kw_only=True)
class Job:
    """The ranks of a job in order, and what is wrong with the set."""

    ranks: tuple[RankSummary, ...]
    places: tuple[tuple[Path, int], ...]  # for each rank its file, and which timeline in that file it is
    clocks: Clocks
    doubles: tuple[int, ...]
    missing: tuple[int, ...]
    world_size: int
    failures: tuple[Failure, ...]


@dataclass(frozen=True, kw_only=True)
class OfFile(Generic[Result]):
    """What was made of the ranks in one file, and messages on those of its members that could not be read."""

    ranks: tuple[Result, ...]
    failures: tuple[str, ...]


def read_job(paths: Sequence[Path], options: JobOptions, progress: Progress | None = None) -> Job:
    """Summaries of every rank in these files. Raises InputError only where not one rank can be read."""
    folder = cache_folder() if options.use_cache else None
    results, failures = gather(
        partial(_summarised, options=options.reading_of(paths), folder=folder), paths, options, progress
    )
    return _job(paths, results, failures)


def gather(
    work: Callable[[Path], OfFile[Result]],
    paths: Sequence[Path],
    options: JobOptions,
    progress: Progress | None = None,
) -> tuple[dict[int, OfFile[Result]], list[Failure]]:
    """The work done on every file, by its index, and what failed. Raises InputError only where nothing succeeded."""
    results: dict[int, OfFile[Result]] = {}
    failures: list[Failure] = []
    errors: dict[int, InputError] = {}
    for done, (index, outcome) in enumerate(over_files(partial(attempted, work), paths, options.jobs), start=1):
        if isinstance(outcome, InputError | WorkerDied):
            errors[index] = _of_worker(paths[index], outcome)
            if options.reading.strict:
                raise errors[index]
            failures.append(failure_of(paths[index], errors[index]))
        else:
            results[index] = outcome
            failures += [Failure(path=str(paths[index]), message=message) for message in outcome.failures]
        if progress is not None:
            progress(done, len(paths))
    if options.use_cache:
        prune(cache_folder())
    if not results:
        raise errors[min(errors)]
    return results, sorted(failures, key=lambda failure: failure.path)


def attempted(work: Callable[[Path], Result], path: Path) -> Result | InputError:
    """What the work on one file gives, or why there is nothing: one bad file among a thousand ends nothing."""
    try:
        return work(path)
    except Exception as error:  # noqa: BLE001 (the work on a file begins here: a bug that it meets costs this file only)
        return explained(path, error)


def _of_worker(path: Path, outcome: InputError | WorkerDied) -> InputError:
    return outcome if isinstance(outcome, InputError) else InputError(f"{path}: its reader died (out of memory?).")


def failure_of(path: Path, error: InputError) -> Failure:
    return Failure(path=str(path), message=str(error), traceback=getattr(error, "traceback", ""))


def explained(path: Path, error: Exception) -> InputError:
    """Why a file cannot be used. Of a bug it says which exception was raised where: by the innermost line of ours."""
    if isinstance(error, InputError):
        return error
    if isinstance(error, MemoryError):
        return InputError(f"{path}: there is not enough memory to read it.")
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if _PACKAGE in Path(frame.filename).parents] or frames
    at = ours[-1]
    place = f"{Path(*Path(at.filename).parts[-3:])}:{at.lineno}, {at.name}"
    return UnexpectedError(
        f"{path}: Redline failed on it: {type(error).__name__}: {first_line(error)[:_LONGEST_REASON]} ({place}).\n"
        "This is a bug; please report this line, or all of what -v prints.",
        "".join(traceback.format_exception(error)),
    )


def _summarised(path: Path, options: ReadOptions, folder: Path | None) -> OfFile[RankSummary]:
    reading = read_cached(path, options, folder)
    return OfFile(ranks=tuple(map(summarise, reading.timelines)), failures=reading.failures)


def _job(paths: Sequence[Path], results: dict[int, OfFile[RankSummary]], failures: list[Failure]) -> Job:
    found = [
        (summary, (paths[index], number))
        for index in sorted(results)
        for number, summary in enumerate(results[index].ranks)
    ]
    world_size = max(summary.metadata.world_size for summary, _ in found)
    numbering = job_ranks([(summary.rank, summary.rank_origin) for summary, _ in found], world_size)
    ordered = sorted(
        (rank, index, replace(summary, rank=rank, rank_origin=origin), place)
        for index, (rank, origin, (summary, place)) in enumerate(
            zip(numbering.ranks, numbering.origins, found, strict=True)
        )
    )
    summaries = tuple(summary for _, _, summary, _ in ordered)
    return Job(
        ranks=summaries,
        places=tuple(place for *_, place in ordered),
        clocks=align(matched([summary.arrivals for summary in summaries]), len(summaries)),
        doubles=numbering.doubles,
        missing=numbering.missing if len(found) > 1 else (),
        world_size=world_size,
        failures=tuple(failures),
    )
