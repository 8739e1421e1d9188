"""All ranks of a job, one summary each: read in parallel, in order of rank, their clocks compared."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from redline.job.clocks import Clocks, on_one_clock
from redline.job.rank_order import Claim, jobs_among, rank_order
from redline.job.read_failures import Failure
from redline.job.read_files import JobOptions, gather
from redline.job.summary import RankSummary, summarise
from redline.progress import Progress, silent
from redline.trace.cache import read_cached
from redline.trace.reader import OfFile, ReadOptions


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

    @property
    def jobs(self) -> int:
        return jobs_among([rank.zero_ns for rank in self.ranks])

    @property
    def changes(self) -> tuple[str, ...]:
        """The what-ifs that its timelines were altered by; none where they were not."""
        return tuple(dict.fromkeys(change for rank in self.ranks for change in rank.changes))


def read_job(paths: Sequence[Path], options: JobOptions, progress: Progress = silent) -> Job:
    """Summaries of every rank in these files. Raises InputError only where not one rank can be read."""
    work = partial(_summarised, options=options.reading_of(paths), folder=options.cache)
    results, failures = gather(work, paths, options, progress)
    read = [
        (summary, (paths[index], number))
        for index in sorted(results)
        for number, summary in enumerate(results[index].ranks)
    ]
    order = rank_order(
        [
            Claim(rank=timeline.rank, origin=timeline.rank_origin, world_size=timeline.metadata.world_size)
            for timeline, _ in read
        ]
    )
    ranks = tuple(replace(read[place.index][0], rank=place.rank, rank_origin=place.origin) for place in order.places)
    return Job(
        ranks=ranks,
        places=tuple(read[place.index][1] for place in order.places),
        clocks=on_one_clock([rank.arrivals for rank in ranks]).clocks,
        doubles=order.doubles,
        missing=order.missing if len(order.places) > 1 else (),  # a single trace may be looked at for itself
        world_size=order.world_size,
        failures=tuple(failures),
    )


def _summarised(path: Path, options: ReadOptions, folder: Path | None) -> OfFile[RankSummary]:
    reading = read_cached(path, options, folder)
    return OfFile(ranks=tuple(map(summarise, reading.timelines)), failures=reading.failures)
