"""What ranks leave behind for the process that started them: one result, or a line from each rank that failed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

RESULT = "result.json"
_FAILURES = "failed-*.json"


@dataclass(frozen=True, kw_only=True)
class RankFailure:
    """Why a rank ended early."""

    rank: int
    at_ns: int
    """Since the epoch: where one rank fails, others lose their partner and fail after it."""
    line: str
    is_usage: bool = False
    """What the user asked for makes no sense."""


def failure_path(folder: Path, rank: int) -> Path:
    return folder / _FAILURES.replace("*", str(rank))


def failures(folder: Path) -> Iterator[RankFailure]:
    """The first one first."""
    import msgspec

    failures_read = [msgspec.json.decode(path.read_bytes(), type=RankFailure) for path in folder.glob(_FAILURES)]
    yield from sorted(failures_read, key=lambda failure: failure.at_ns)
