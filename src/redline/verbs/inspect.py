"""`redline inspect`: what is in these traces, and how far it can be trusted."""

from collections.abc import Sequence
from pathlib import Path

from redline.job.find_files import read_found
from redline.job.job import Job, read_job
from redline.job.read_files import JobOptions
from redline.progress import Progress, silent


def inspect(paths: Sequence[str | Path], options: JobOptions | None = None, progress: Progress = silent) -> Job:
    """Read the traces named by files, folders or patterns, and summarise each rank."""
    return read_found(paths, lambda files: read_job(files, options or JobOptions(), progress))[1]
