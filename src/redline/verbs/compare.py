"""`redline compare`: what differs between two recordings of a job."""

from collections.abc import Sequence
from pathlib import Path

from redline.errors import InputError, UsageError
from redline.progress import Progress, silent
from redline.ranks.read_files import JobOptions
from redline.report.compare.compare_result import CompareResult
from redline.trials.recordings import difference_of
from redline.verbs.diagnose import diagnose
from redline.verbs.digest import digest

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
    """Diagnose two recordings, each a run folder, traces or digests, and hold the one against the other."""
    results = [diagnose(paths, machine=machine, options=options, progress=progress) for paths in (before, after)]
    difference = difference_of(results[0].diagnosis, results[1].diagnosis, (results[0].findings, results[1].findings))
    return CompareResult(
        names=(_name(before), _name(after)), before=results[0], after=results[1], difference=difference
    )


def _name(paths: Paths) -> str:
    several = [paths] if isinstance(paths, str | Path) else list(paths)
    return ", ".join(map(str, several[:2])) + (", ..." if len(several) > 2 else "")


def save_baseline(
    name: str, paths: Sequence[str | Path], folder: str | Path = BASELINES, *, force: bool = False
) -> Path:
    """Keep a recording under a name, as digests: at most 32 KB per rank."""
    target = _place(name, folder)
    if target.exists() and not force:
        raise UsageError(f"compare: there is a baseline {name!r} in {folder} already; replace it with `force=...`")
    digest(paths, target, force=True)
    return target


def baseline(name: str, folder: str | Path = BASELINES) -> Path:
    """The folder of a recording that was kept under a name."""
    target = _place(name, folder)
    if not target.is_dir():
        known = sorted(path.name for path in Path(folder).glob("*") if path.is_dir())
        there = f"there are: {', '.join(known)}" if known else "there is none"
        raise InputError(f"{folder}: no baseline {name!r}; {there}. Keep one with `save_as=...`")
    return target


def _place(name: str, folder: str | Path) -> Path:
    if not name or name in (".", "..") or any(letter in name for letter in "/\\\0"):
        raise UsageError(f"compare: {name!r} is no name for a baseline; it is that of a folder")
    return Path(folder) / name
