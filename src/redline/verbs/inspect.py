"""`redline inspect`: what is in these traces, and how far it can be trusted."""

from collections.abc import Sequence
from pathlib import Path

from redline.trace.find import find_traces
from redline.trace.job import Job, JobOptions, Progress, read_job


def inspect(paths: Sequence[str | Path], options: JobOptions | None = None, progress: Progress | None = None) -> Job:
    """Read the traces named by files, folders or patterns, and summarise each rank."""
    return read_job(find_traces(paths), options or JobOptions(), progress)
