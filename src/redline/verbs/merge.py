"""`redline merge`: the ranks of a job on one clock, in one trace for Perfetto."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from redline.artifacts import written_here
from redline.progress import Progress, silent
from redline.ranks.find_files import find_traces
from redline.ranks.job import read_job
from redline.ranks.merge import Merged, RankFailedError, Read, check_output, write_merged
from redline.ranks.read_failures import Failure, failure_of
from redline.ranks.read_files import JobOptions
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
) -> Merged:
    """Merge the traces named by files, folders or patterns into `output`.

    With a redactor, nothing gets into it that is private: hosts, users, folders, names of traces, secrets.
    """
    target = path_of(output)
    check_output(target, force=force)
    options = options or JobOptions()
    files = find_traces(paths)
    failed: list[Failure] = []
    while True:
        job = read_job(files, options, progress)
        job = replace(job, failures=(*job.failures, *failed))
        if redactor is not None:
            job = replace(job, ranks=redactor.redacted(job.ranks), failures=redactor.redacted(job.failures))
        read = _reader(options, redactor)
        try:
            with written_here(target, force=force) as path:
                merged = write_merged(job, read, path, budget_bytes=budget_bytes, force=force, progress=progress)
            return replace(merged, path=str(target))
        except RankFailedError as error:  # what was written so far is gone: once more, without that file
            if options.reading.strict or error.path is None or files == [error.path]:
                raise
            files.remove(error.path)
            failed.append(failure_of(error.path, error))


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
