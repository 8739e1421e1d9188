"""How a job is told: labels that the user gives, and what its folder and the record of its run say otherwise."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from redline.capture.run_record import CAPTURED, NAME, RunRecord, read_record
from redline.errors import InputError, UsageError

_HOUR_NS = 3_600_000_000_000
_PARENTS = 4  # folders above a digest in which the record of its run is looked for
_GENERIC = re.compile(r"digests?|window-[0-9]+|restart-[0-9]+")  # names of folders that tell no job


@dataclass(frozen=True, kw_only=True)
class JobLabels:
    """What rows of one job have in common; an empty job is told from the digests."""

    job: str = ""
    team: str = ""
    model: str = ""
    cluster: str = ""
    hours: float | None = None  # of each device that a window stands for, as the user states it

    def __post_init__(self) -> None:
        if self.hours is not None and not 0 < self.hours < 1e6:
            raise UsageError(f"lake add: `hours={self.hours:g}` is not a number of hours above 0")

    def of_job(self, job: str) -> "JobLabels":
        """With every label as text that a file can hold: names of folders need not be."""
        return JobLabels(
            job=_text(job),
            team=_text(self.team),
            model=_text(self.model),
            cluster=_text(self.cluster),
            hours=self.hours,
        )


@dataclass(frozen=True, kw_only=True)
class RepresentedHours:
    """Hours of one device that a window stands for, and how that is known."""

    hours: float
    hours_from: str  # stated, run or window


def _text(label: str) -> str:
    return label.encode(errors="replace").decode()


def run_of(digests: Sequence[Path]) -> tuple[Path, RunRecord] | None:
    """The folder and the record of the run that left these digests; None where there is none to be read."""
    first = digests[0].absolute()
    for folder in list(first.parents)[:_PARENTS]:
        if (folder / NAME).is_file():
            try:
                return folder, read_record(folder / NAME)
            except InputError:
                return None
    return None


def job_of(labels: JobLabels, digests: Sequence[Path]) -> str:
    """The id of the job: as given, else its run, else the folder of its digests."""
    if labels.job:
        return labels.job
    run = run_of(digests)
    if run is not None:
        folder, record = run
        return f"{folder.name} {record.started}".strip()
    folders = {_named_folder(path) for path in digests}
    if len(folders) > 1:
        names = ", ".join(sorted(folder.name for folder in folders)[:3])
        raise UsageError(
            f"lake add: the digests are in {len(folders)} folders ({names}), which may be several jobs; "
            "add each job by itself, or name the one job with `job=...`"
        )
    return folders.pop().name


def _named_folder(digest: Path) -> Path:
    folder = digest.absolute().parent
    while _GENERIC.fullmatch(folder.name) and folder.parent != folder:
        folder = folder.parent
    return folder


def represented_hours(labels: JobLabels, run: RunRecord | None, window_ns: int) -> RepresentedHours:
    """What was stated; else the wall time of the run, shared by its windows; else the window itself."""
    if labels.hours is not None:
        return RepresentedHours(hours=labels.hours, hours_from="stated")
    if run is not None and run.wall_ns > 0:
        windows = max((sum(w.state in CAPTURED for w in rank.windows) for rank in run.ranks), default=0)
        return RepresentedHours(hours=run.wall_ns / max(windows, 1) / _HOUR_NS, hours_from="run")
    return RepresentedHours(hours=window_ns / _HOUR_NS, hours_from="window")
