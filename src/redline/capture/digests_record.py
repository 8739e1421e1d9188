"""What a run says of digests that were made where its ranks ran: which, at what cost, and which traces were deleted."""

from __future__ import annotations

from dataclasses import dataclass, replace

MOST_LISTED = 1024  # digests that the record lists one by one; all are in the totals
WRITTEN, FAILED = "written", "failed"
KEPT, DELETED = "kept", "deleted"


@dataclass(frozen=True, kw_only=True)
class RankDigest:
    """One rank's digest of one window."""

    rank: int
    restart: int
    window: int
    first_step: int
    steps: int
    state: str
    """written or failed."""
    why: str
    """Why it failed, or what is wrong with its trace."""
    path: str
    """Relative to the folder of the run."""
    size_bytes: int
    trace_bytes: int
    wall_ns: int
    cpu_ns: int
    trace: str
    """kept, deleted, or why the rule spared it: late or slow."""


@dataclass(frozen=True, kw_only=True)
class DigestsRecord:
    """All digests of a run, by one watcher or several."""

    keep_traces: int | None
    """Windows whose traces stay; None where all do."""
    wait_s: float
    """That the watcher waits for digests at most when the job is over."""
    written: int = 0
    failed: int = 0
    missed: int = 0
    """Traces that made room for newer ones before they were digested."""
    size_bytes: int = 0
    processes: int = 0
    """That digested and chose, one after the other."""
    cpu_ns: int = 0
    """Of these processes, with starting them."""
    wall_ns: int = 0
    choosing_cpu_ns: int = 0
    """Of it, to find out which ranks stand out."""
    peak_bytes: int = 0
    """The largest memory of any of them."""
    deleted: int = 0
    """Traces."""
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
