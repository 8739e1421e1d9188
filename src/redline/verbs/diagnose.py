"""`redline diagnose`: where the time of a job went, every nanosecond in one account."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from redline.analysis.job.combine import Diagnosis, combine
from redline.analysis.job.digests import digest_job
from redline.analysis.job.outline import Outline, outline_of
from redline.trace.find import find_traces
from redline.trace.job import Failure, JobOptions, Progress


@dataclass(frozen=True, kw_only=True)
class Diagnosed:
    """The diagnosis of a job, its outline, and the files that could not be read."""

    diagnosis: Diagnosis
    outline: Outline
    failures: tuple[Failure, ...]


def diagnose(
    paths: Sequence[str | Path],
    *,
    machine: str | None = None,
    options: JobOptions | None = None,
    progress: Progress | None = None,
) -> Diagnosed:
    """Read the traces or digests named by files, folders or patterns, and account for their time.

    `machine` is a record of the catalogue or a profile file; without it each trace's own device is looked up.
    """
    found = digest_job(find_traces(paths, digests=True), machine, options or JobOptions(), progress)
    diagnosis = combine(found.digests)
    return Diagnosed(diagnosis=diagnosis, outline=outline_of(diagnosis), failures=found.failures)
