"""Retention: remove whole days of a lake."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from redline.errors import InputError
from redline.lake.extra import parquet, pyarrow
from redline.lake.parts import LakePart, first_day, parts_of, remove


@dataclass(frozen=True, kw_only=True)
class PrunedLake:
    """What was removed."""

    first_kept: str  # a day, in UTC
    days: int
    digests: int  # rows of the files that were removed


def prune(lake: Path, days: int, today: datetime) -> PrunedLake:
    """Remove windows that ended before the last so many days, today being one."""
    parts = parts_of(lake)
    if not parts:
        raise InputError(f"{lake}: no lake in this folder, so there is nothing to prune; check its name")
    first_kept = first_day(today.date(), days)
    old = [part for part in parts if part.day < first_kept]
    digests = sum(map(_rows, old))
    for part in old:
        remove(part.path)
    folders = {part.path.parent for part in old}
    for folder in folders:
        _remove_if_empty(folder)
    return PrunedLake(first_kept=first_kept, days=len(folders), digests=digests)


def _rows(part: LakePart) -> int:
    """0 of a damaged file, which goes as well."""
    try:
        return int(parquet().read_metadata(part.path).num_rows)
    except (OSError, pyarrow().ArrowException):
        return 0


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):  # somebody is adding to it
        folder.rmdir()
