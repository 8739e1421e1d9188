"""The record of a run, `run.json`: everything beside its traces but the times of single steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from redline.artifacts import Envelope
from redline.artifacts.file_kind import FileKind
from redline.errors import InputError
from redline.values import dataclass

KIND = "run"
SCHEMA_VERSION = 1
NAME = "run.json"
DIGESTS = "digests"  # the folder of those that were made where the ranks ran
CAPTURED = ("written", "digested")  # states of a window that can be diagnosed
_MOST_RANKS = 1_000_000
_MOST = 2**62
MOST_LISTED = 1024  # digests that the record lists one by one; all are in the totals
WRITTEN, FAILED = "written", "failed"
KEPT, DELETED = "kept", "deleted"


@dataclass(frozen=True, kw_only=True)
class WindowRecord:
    """A few steps that were captured on one rank."""

    number: int
    state: str  # written, digested (its trace was deleted since), or why not: no space, incomplete, failed, killed
    first_step: int
    steps: int
    length_ns: int
    stall_ns: int  # how long the rank stood still to stop recording and hand the result over
    writing_ns: int
    writing_cpu_ns: int  # CPU time of the process that wrote the trace, beside the job
    path: str  # relative to the folder of the run
    raw_bytes: int
    size_bytes: int
    sha256: str
    slowdown: float | None  # length of a captured step over that of a usual one; None where there is no other


@dataclass(frozen=True, kw_only=True)
class RankRecord:
    """One process of the job."""

    rank: int
    restart: int
    host: str
    pid: int
    steps: int
    step_kind: str  # optimizer, calls, by hand, or none: what ends a step
    step_ns: int | None  # the median of steps that were neither captured nor among the first
    step_p10_ns: int | None
    step_p90_ns: int | None
    slowest_ns: int | None
    step_mean_ns: int | None  # the mean of the same steps, as is the wait below
    step_wait_ns: int | None  # waiting for the data loader in a step, on average
    input_wait_ns: int  # waiting for the data loader, in the whole run
    batches: int
    peak_bytes: int
    capture_cost_ns: int  # time that the process spent on being captured
    finished: bool  # it came to its end in the orderly way; a killed process does not
    windows: tuple[WindowRecord, ...]
    notes: tuple[dict[str, Any], ...]
    facts: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """A run of a job, on one machine or several."""

    command: tuple[str, ...]
    folder: str
    launcher: str
    world: int
    started: str
    wall_ns: int
    exit_code: int | None
    signal: str | None
    ranks: tuple[RankRecord, ...]
    machine: dict[str, Any]
    settings: dict[str, Any]
    watcher_cpu_ns: int = 0  # CPU time of the process that watched
    notes: tuple[str, ...] = ()
    stalls: tuple[dict[str, Any], ...] = ()
    digests: DigestsRecord | None = None  # None where none were asked for

    @property
    def is_diagnosable(self) -> bool:
        """There is a trace, or the digest of one."""
        return any(window.state in CAPTURED for rank in self.ranks for window in rank.windows)


_RUN = FileKind(
    "the record of a run",
    RunRecord,
    "diagnose its traces without it",
    most_bytes=64 << 20,  # some 20,000 ranks
    envelope=(KIND, SCHEMA_VERSION),
    numbers=(0.0, _MOST),
)


def to_json(record: RunRecord) -> dict[str, object]:
    envelope = Envelope(kind=KIND, schema_version=SCHEMA_VERSION, made_by="redline run")
    return {**envelope.to_dict(), **asdict(record)}


def read_record(path: Path) -> RunRecord:
    from redline.artifacts.masking import masked_value

    record = _RUN.shaped(masked_value(_RUN.content(path)), str(path))  # earlier versions recorded secrets
    wrong = next(_unsound(record), "")
    if wrong:
        raise InputError(f"{path}: not a sound record of a run: {wrong}. Diagnose its traces without it")
    return record


def _unsound(record: RunRecord) -> Iterator[str]:
    """Name values that cannot be: anybody may have written the file."""
    if not 0 <= record.world <= _MOST_RANKS:
        yield f"world is {record.world}"
    steps = record.settings.get("steps", 0)
    if not isinstance(steps, int) or not 0 <= steps <= _MOST:
        yield f"settings.steps is {steps!r:.40}"


@dataclass(frozen=True, kw_only=True)
class RankDigest:
    """One rank's digest of one window."""

    rank: int
    restart: int
    window: int
    first_step: int
    steps: int
    state: str  # written or failed
    why: str  # why it failed, or what is wrong with its trace
    path: str  # relative to the folder of the run
    size_bytes: int
    trace_bytes: int
    wall_ns: int
    cpu_ns: int
    trace: str  # kept, deleted, or why the rule spared it: late or slow


@dataclass(frozen=True, kw_only=True)
class DigestsRecord:
    """All digests of a run, by one watcher or several."""

    keep_traces: int | None  # windows whose traces stay; None where all do
    wait_s: float  # that the watcher waits for digests at most when the job is over
    written: int = 0
    failed: int = 0
    missed: int = 0  # traces that made room for newer ones before they were digested
    size_bytes: int = 0
    processes: int = 0  # that digested and chose, one after the other
    cpu_ns: int = 0  # CPU time of these processes, with starting them
    wall_ns: int = 0
    choosing_cpu_ns: int = 0  # CPU time of them to find out which ranks stand out
    peak_bytes: int = 0  # the largest memory of any of them
    deleted: int = 0  # traces
    deleted_bytes: int = 0
    newest: tuple[RankDigest, ...] = ()


def joined_digests(others: DigestsRecord | None, own: DigestsRecord | None) -> DigestsRecord | None:
    """Those of several watchers of one job together."""
    if others is None or own is None:
        return own or others
    added = ("written", "failed", "missed", "size_bytes", "processes", "cpu_ns", "wall_ns", "choosing_cpu_ns")
    totals = {name: getattr(others, name) + getattr(own, name) for name in (*added, "deleted", "deleted_bytes")}
    listed = sorted((*others.newest, *own.newest), key=lambda digest: (digest.restart, digest.window, digest.rank))
    peak_bytes = max(others.peak_bytes, own.peak_bytes)
    return replace(own, **totals, peak_bytes=peak_bytes, newest=tuple(listed[-MOST_LISTED:]))
