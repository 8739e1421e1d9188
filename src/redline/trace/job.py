"""All ranks of a job, one summary each: read in parallel, placed in order, their clocks compared."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from redline.errors import InputError
from redline.trace.cache import cache_folder, prune, read_cached
from redline.trace.clocks import Clocks, align
from redline.trace.collectives import matched
from redline.trace.pool import WorkerDied, over_files
from redline.trace.ranks import job_ranks
from redline.trace.reader import ReadOptions
from redline.trace.summary import RankSummary, summarise

Result = TypeVar("Result")
Progress = Callable[[int, int], None]  # files done, files in all


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """How to read the traces of a job."""

    reading: ReadOptions = field(default_factory=ReadOptions)
    jobs: int | None = None  # processes; None: one per core
    use_cache: bool = True


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A file, or a member of an archive, that could not be read."""

    path: str
    message: str


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
    results, failures = gather(partial(_summarised, options=options.reading, folder=folder), paths, options, progress)
    return _job(paths, results, failures)


def gather(
    work: Callable[[Path], OfFile[Result] | InputError],
    paths: Sequence[Path],
    options: JobOptions,
    progress: Progress | None = None,
) -> tuple[dict[int, OfFile[Result]], list[Failure]]:
    """The work done on every file, by its index, and what failed. Raises InputError only where nothing succeeded."""
    results: dict[int, OfFile[Result]] = {}
    failures: list[Failure] = []
    for done, (index, outcome) in enumerate(over_files(work, paths, options.jobs), start=1):
        if isinstance(outcome, InputError):
            if options.reading.strict:
                raise outcome
            failures.append(Failure(path=str(paths[index]), message=str(outcome)))
        elif isinstance(outcome, WorkerDied):
            failures.append(
                Failure(path=str(paths[index]), message=f"{paths[index]}: its reader died (out of memory?).")
            )
        else:
            results[index] = outcome
            failures += [Failure(path=str(paths[index]), message=message) for message in outcome.failures]
        if progress is not None:
            progress(done, len(paths))
    if options.use_cache:
        prune(cache_folder())
    if not results:
        raise InputError(failures[0].message)
    return results, sorted(failures, key=lambda failure: failure.path)


def _summarised(path: Path, options: ReadOptions, folder: Path | None) -> OfFile[RankSummary] | InputError:
    """Errors are returned, so that one bad file among a thousand ends nothing."""
    try:
        reading = read_cached(path, options, folder)
    except InputError as error:
        return error
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
