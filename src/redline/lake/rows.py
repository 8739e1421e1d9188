"""From named digests to rows of the lake: the windows they are of, the labels of their job, one row for each rank."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np

from redline.artifacts import DIGEST_ENDING, restart_number, window_number
from redline.capture.run_record import CAPTURED, NAME, RunRecord, read_record
from redline.errors import InputError, UsageError
from redline.findings.finding import Finding
from redline.lake.extra import pyarrow
from redline.lake.schema import ACCOUNT_COLUMNS, MOST_OPERATORS, arrow_schema
from redline.ledger.accounts import ACCOUNTS
from redline.ledger.job.combine import Diagnosis
from redline.ledger.job.lateness import LateRank
from redline.ledger.rank.digest import Digest
from redline.storage import below, look_anew, matches, path_of, shown

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
        labels: dict[str, Any] = {"job": job, "team": self.team, "model": self.model, "cluster": self.cluster}
        return replace(self, **{name: text.encode(errors="replace").decode() for name, text in labels.items()})


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


def _represented_hours(labels: JobLabels, run: RunRecord | None, window_ns: int) -> tuple[float, str]:
    """What was stated; else the wall time of the run, shared by its windows; else the window itself; and which."""
    if labels.hours is not None:
        return labels.hours, "stated"
    if run is not None and run.wall_ns > 0:
        windows = max((sum(w.state in CAPTURED for w in rank.windows) for rank in run.ranks), default=0)
        return run.wall_ns / max(windows, 1) / _HOUR_NS, "run"
    return window_ns / _HOUR_NS, "window"


Window = tuple[int, int]  # numbers of the restart and the window; (0, 0) where the folders name none


def find_digests(named: Sequence[str | Path]) -> dict[Window, list[Path]]:
    """Digests by the window that their folders name, each file once."""
    paths = list(dict.fromkeys(path for name in named for path in _meant_by(str(name))))
    if not paths:
        raise UsageError("lake add: no digest was named; give the files or the folder that `redline digest` wrote")
    windows: dict[Window, list[Path]] = {}
    for path in paths:
        windows.setdefault(_window_of(path), []).append(path)
    return windows


def _meant_by(named: str) -> list[Path]:
    path = path_of(named)
    look_anew(path)
    if path.is_dir():
        inside = sorted(below(path, f"*{DIGEST_ENDING}"))
        if not inside:
            raise InputError(
                f"{shown(named)}: no digest in this folder; make digests of its traces first: redline digest"
            )
        return inside
    if path.exists():
        return [path]
    meant = sorted(matches(named))
    if not meant:
        raise InputError(f"{shown(named)}: no such file or folder, and as a pattern it matches nothing.")
    return [inner for match in meant for inner in _meant_by(str(match))]


def _window_of(path: Path) -> Window:
    names = path.absolute().parts
    return _innermost(restart_number, names), _innermost(window_number, names)


def _innermost(number: Callable[[str], int | None], names: Sequence[str]) -> int:
    found = [each for each in map(number, names) if each is not None]
    return found[-1] if found else 0


Struct = dict[str, Any]


def rows_of(
    diagnosis: Diagnosis,
    findings: Sequence[Finding],
    labels: JobLabels,
    *,
    run: RunRecord | None,
    added_ns: int,
) -> Any:
    """An Arrow table in the schema of the lake; `labels` name the job."""
    ranks = diagnosis.ranks
    columns: dict[str, Any] = {
        "added_ns": [added_ns] * len(ranks),
        **{name: [getattr(labels, name)] * len(ranks) for name in ("job", "team", "model", "cluster")},
        **_origins(diagnosis),
        **_times(ranks),
        **_lateness(diagnosis),
        "findings": [_gains(findings)] * len(ranks),
        "operators": [list(_operators(rank)) for rank in ranks],
    }
    hours = [_represented_hours(labels, run, rank.window_ns[1] - rank.window_ns[0]) for rank in ranks]
    columns["gpu_hours"], columns["hours_from"] = ([of_rank[part] for of_rank in hours] for part in (0, 1))
    columns["digest_id"] = digest_ids(columns["job"], columns["rank"], columns["start_ns"])
    schema = arrow_schema()
    return pyarrow().table([pyarrow().array(columns[field.name], field.type) for field in schema], schema=schema)


def digest_ids(jobs: Sequence[str], ranks: Sequence[int], starts_ns: Sequence[int]) -> list[int]:
    """A number for each digest: the same whenever, and in whatever company, it is added."""
    texts = (f"{job}\0{rank}\0{start}" for job, rank, start in zip(jobs, ranks, starts_ns, strict=True))
    hashes = (hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest() for text in texts)
    return [int.from_bytes(number, "little", signed=True) for number in hashes]


def _origins(diagnosis: Diagnosis) -> dict[str, list[Any]]:
    ranks = diagnosis.ranks
    return {
        "rank": [rank.origin.rank for rank in ranks],
        "node": [rank.origin.host for rank in ranks],
        "world_size": [diagnosis.world_size] * len(ranks),
        "ranks": [len(ranks)] * len(ranks),
        "device": [rank.facts.device_name or rank.facts.device.upper() for rank in ranks],
        "machine": [rank.facts.machine for rank in ranks],
        "synthetic": [bool(rank.origin.synthetic) for rank in ranks],
    }


def _times(ranks: Sequence[Digest]) -> dict[str, Any]:
    accounts = np.array([rank.ledger.steps.sum(axis=0) for rank in ranks], np.int64).reshape(-1, len(ACCOUNTS))
    steps = np.array([len(rank.ledger.start_ns) for rank in ranks], np.int32)
    in_steps_ns = accounts.sum(axis=1)
    return {
        "start_ns": [rank.zero_ns + rank.window_ns[0] for rank in ranks],
        "end_ns": [rank.zero_ns + rank.window_ns[1] for rank in ranks],
        "steps": steps,
        "step_ns": in_steps_ns // np.maximum(steps, 1),
        "in_steps_ns": in_steps_ns,
        "outside_ns": [int(rank.ledger.outside.sum()) for rank in ranks],
        **{name: accounts[:, number] for number, name in enumerate(ACCOUNT_COLUMNS)},
    }


def _lateness(diagnosis: Diagnosis) -> dict[str, list[Any]]:
    late: dict[int, LateRank] = {}
    if diagnosis.lateness is not None:
        late = {late_rank.rank: late_rank for late_rank in diagnosis.lateness.ranks}
    by_rank = [late.get(rank.origin.rank) for rank in diagnosis.ranks]
    return {
        "caused_ns": [0 if of_rank is None else of_rank.caused_ns for of_rank in by_rank],
        "last_at": [0 if of_rank is None else of_rank.last for of_rank in by_rank],
        "late_ns": [0 if of_rank is None else of_rank.late_ns for of_rank in by_rank],
        "late_cause": ["" if of_rank is None else of_rank.cause for of_rank in by_rank],
    }


def _gains(findings: Sequence[Finding]) -> list[Struct]:
    return [
        {"code": finding.code, "alone_share": finding.alone_share, "bound_share": finding.share}
        for finding in findings
        if not finding.is_void
    ]


def _operators(rank: Digest) -> Iterator[Struct]:
    """The longest, over all shapes; the roof is known only where it is for every shape."""
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0, 0, 0.0])
    for row in rank.kernels:
        total = sums[row.operator or row.kernel, row.dtype]
        total[0] += row.calls
        total[1] += row.time_ns
        total[2] += row.roof_ns if row.known else float("nan")
    longest = sorted(sums.items(), key=lambda item: (-item[1][1], item[0]))[:MOST_OPERATORS]
    for (operator, dtype), (calls, time_ns, roof_ns) in longest:
        known_ns = None if isnan(roof_ns) else min(round(roof_ns), int(time_ns))
        yield {"operator": operator, "dtype": dtype, "calls": calls, "time_ns": time_ns, "roof_ns": known_ns}
