"""`redline inspect`: what is in these traces, and how far it can be trusted."""

from collections.abc import Sequence
from pathlib import Path

from redline.progress import Progress, silent
from redline.ranks.find_files import find_traces
from redline.ranks.job import Job, read_job
from redline.ranks.read_files import JobOptions


def inspect(paths: Sequence[str | Path], options: JobOptions | None = None, progress: Progress = silent) -> Job:
    """Read the traces named by files, folders or patterns, and summarise each rank."""
    return read_job(find_traces(paths), options or JobOptions(), progress)
