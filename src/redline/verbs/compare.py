"""`redline compare`: what differs between two recordings of a job."""

from collections.abc import Sequence
from pathlib import Path

from redline.artifacts import DIGEST_ENDING
from redline.errors import InputError, UsageError
from redline.job.find_files import TraceFiles, find_traces
from redline.job.read_files import JobOptions
from redline.progress import Progress, silent
from redline.report.compare.compare_result import CompareResult
from redline.report.redaction.redactor import Redactor
from redline.storage import path_of, shown
from redline.trials.recordings import difference_of
from redline.trials.run_facts import run_facts_of
from redline.verbs.diagnose import diagnose
from redline.verbs.digest import digest
from redline.verbs.recording_kind import refuse_reports

BASELINES = "redline-baselines"
"""Where named recordings are kept, unless another folder is given: small enough for a repository."""
Paths = str | Path | Sequence[str | Path]


def compare(
    before: Paths,
    after: Paths,
    *,
    machine: str | None = None,
    options: JobOptions | None = None,
    progress: Progress = silent,
) -> CompareResult:
    """Diagnose two recordings and hold the one against the other.

    Each is a run folder, traces, digests, or the predicted step of a plan.
    """
    for paths in (before, after):
        refuse_reports(_several(paths))
    files = [
        paths if isinstance(paths, TraceFiles) else TraceFiles(_several(paths), digests=True)
        for paths in (before, after)
    ]
    results = [diagnose(found, machine=machine, options=options, progress=progress) for found in files]
    difference = difference_of(
        results[0].diagnosis,
        results[1].diagnosis,
        (results[0].findings, results[1].findings),
        (run_facts_of(files[0]), run_facts_of(files[1])),
    )
    return CompareResult(
        names=(_name(before), _name(after)), before=results[0], after=results[1], difference=difference
    )


def _several(paths: Paths) -> list[str | Path]:
    return [paths] if isinstance(paths, str | Path) else list(paths)


def _name(paths: Paths) -> str:
    several = _several(paths)
    return ", ".join(map(shown, several[:2])) + (", ..." if len(several) > 2 else "")


def save_baseline(
    name: str,
    paths: Sequence[str | Path],
    folder: str | Path = BASELINES,
    *,
    force: bool = False,
    redactor: Redactor | None = None,
) -> Path:
    """Keep a recording under a name, as digests: at most 32 KB per rank."""
    target = _place(name, folder)
    if target.exists() and not force:
        raise UsageError(f"compare: there is a baseline {name!r} in {folder} already; replace it with `force=...`")
    refuse_reports(paths)
    kept = digest(find_traces(paths, digests=True), target, redactor=redactor, force=True)
    for stale in set(target.glob(f"*{DIGEST_ENDING}")).difference(kept.paths):
        stale.unlink()  # of a rank that the recording before had
    return target


def baseline(name: str, folder: str | Path = BASELINES) -> Path:
    """The folder of a recording that was kept under a name."""
    target = _place(name, folder)
    if not target.is_dir():
        known = sorted(path.name for path in path_of(folder).glob("*") if path.is_dir())
        there = f"there are: {', '.join(known)}" if known else "there is none"
        raise InputError(f"{folder}: no baseline {name!r}; {there}. Keep one with `save_as=...`")
    return target


def _place(name: str, folder: str | Path) -> Path:
    if not name or name in (".", "..") or any(letter in name for letter in "/\\\0"):
        raise UsageError(f"compare: {name!r} is no name for a baseline; it is that of a folder")
    return path_of(path_of(folder) / name)
