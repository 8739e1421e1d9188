"""`redline merge`: the ranks of a job on one clock, in one trace for Perfetto."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from redline.artifacts import written_here
from redline.errors import first_line
from redline.job.find_files import read_found
from redline.job.job import Job, read_job
from redline.job.merge import NOTHING_DRAWN, Drawn, Merged, RankFailedError, Read, check_output, write_merged
from redline.job.read_failures import Failure, attempted, failure_of
from redline.job.read_files import JobOptions
from redline.progress import Progress, silent
from redline.report.redaction.redactor import Redactor
from redline.storage import path_of
from redline.timeline.timeline import Timeline
from redline.trace.cache import read_cached

BUDGET_BYTES = 200_000_000


def merge(
    paths: Sequence[str | Path],
    output: str | Path,
    *,
    budget_bytes: int = BUDGET_BYTES,
    redactor: Redactor | None = None,
    force: bool = False,
    options: JobOptions | None = None,
    progress: Progress = silent,
    critical_path: bool = False,
) -> Merged:
    """Merge the traces named by files, folders or patterns into `output`.

    `critical_path` adds a track with the critical path of each step: every trace is opened once more for it.

    With a redactor, nothing gets into it that is private: hosts, users, folders, names of traces, secrets.
    """
    target = path_of(output)
    check_output(target, force=force)
    options = options or JobOptions()
    files, job = read_found(paths, lambda files: read_job(files, options, progress))
    failed: list[Failure] = []
    while True:
        job = replace(job, failures=(*job.failures, *failed))
        if redactor is not None:
            job = replace(job, ranks=redactor.redacted(job.ranks), failures=redactor.redacted(job.failures))
        read = _reader(options, redactor)
        try:
            drawn, no_path = _critical_path(job, read, target) if critical_path else (NOTHING_DRAWN, "")
            with written_here(target, force=force) as path:
                merged = write_merged(
                    job, read, path, budget_bytes=budget_bytes, force=force, progress=progress, drawn=drawn
                )
            return replace(merged, path=str(target), no_path=no_path)
        except RankFailedError as error:  # what was written so far is gone: once more, without that file
            if options.reading.strict or error.path is None or files == [error.path]:
                raise
            files.remove(error.path)
            failed.append(failure_of(error.path, error))
            job = read_job(files, options, progress)


def _critical_path(job: Job, read: Read, target: Path) -> tuple[Drawn, str]:
    """Of each step, as slices; or why there is none. Whatever goes wrong with it costs the path alone."""
    from redline.findings.path_track import PathTrack, path_track  # of no use to others

    def drawn(_: Path) -> PathTrack:
        ranks = zip(job.places, job.ranks, strict=True)
        return path_track(replace(read(*place), rank=rank.rank) for place, rank in ranks)

    track = attempted(drawn, target)
    if not isinstance(track, PathTrack):
        return NOTHING_DRAWN, first_line(track)
    return Drawn(title="critical path", slices=track.slices), track.declined


def _reader(options: JobOptions, redactor: Redactor | None) -> Read:
    """Gives the timelines of a file again, holding those of one file at a time."""
    last: dict[Path, tuple[Timeline, ...]] = {}

    def read(path: Path, number: int) -> Timeline:
        if path not in last:
            last.clear()
            timelines = read_cached(path, options.reading, options.cache).timelines
            last[path] = timelines if redactor is None else redactor.redacted(timelines)
        return last[path][number]

    return read
