"""Merge small parts of a day into one, so that questions open few files. Whoever writes and reads meanwhile is safe."""

import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path

from redline.errors import InputError
from redline.lake.extra import pyarrow
from redline.lake.parts import LakePart, day_folders, parts_of, remove, write_part
from redline.lake.read_parts import newest_of_each, read_part
from redline.lake.schema import SCHEMA_VERSION

MOST_PARTS = 32  # of a day that is still added to
_FULL_BYTES = 16_000_000  # a part that is this large is left as it is
_MOST_DAYS = 2  # merged after one add, so that none takes long
_ABANDONED_S = 86_400  # an unfinished file of this age belongs to a writer that was killed


def compact(lake: Path) -> int:
    """Merge days that have too many parts, or are over and have several; how many parts went into others."""
    merged = 0
    days = {day: _small(list(group)) for day, group in groupby(parts_of(lake), key=lambda part: part.day)}
    newest = max(days, default="")
    due = [day for day, small in days.items() if len(small) > (MOST_PARTS if day == newest else 1)]
    for day in sorted(due, key=lambda day: -len(days[day]))[:_MOST_DAYS]:
        with _only_one(lake / f"day={day}") as alone:
            if alone:
                merged += _merge(lake, day)
    return merged


def compact_all(lake: Path) -> int:
    """Merge every day; how many parts went into others."""
    return sum(_merge(lake, folder.name.removeprefix("day=")) for folder in day_folders(lake))


def _small(parts: Sequence[LakePart]) -> list[LakePart]:
    """Parts to merge: small ones, and those of an older schema."""
    return [part for part in parts if part.schema_version <= SCHEMA_VERSION and _is_small(part)]


def _is_small(part: LakePart) -> bool:
    try:
        return part.schema_version < SCHEMA_VERSION or part.path.stat().st_size < _FULL_BYTES
    except OSError:  # merged by another since
        return False


def _merge(lake: Path, day: str) -> int:
    """First the merged part is whole on disk, then those in it are removed: at no moment is a row missing."""
    parts = _small([part for part in parts_of(lake) if part.day == day])
    read, tables = [], []
    for part in parts:
        # One that another has merged is there already, and a damaged one is not ours to touch: questions name it.
        with suppress(FileNotFoundError, InputError):
            tables.append(read_part(part))
            read.append(part)
    if len(read) < 2 and all(part.schema_version == SCHEMA_VERSION for part in read):
        return 0
    merged = write_part(lake, newest_of_each(pyarrow().concat_tables(tables)), made_by="redline lake")
    for part in read:
        if part.path != merged.path:
            remove(part.path)
    return len(read)


@contextmanager
def _only_one(folder: Path) -> Iterator[bool]:
    """Whether nobody else merges here: a matter of work, not of safety, as doubles count once."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except OSError:
        yield False
    finally:
        os.close(descriptor)


def remove_abandoned(lake: Path, now_s: float | None = None) -> int:
    """Unfinished files that killed writers left; how many."""
    until_s = (time.time() if now_s is None else now_s) - _ABANDONED_S
    removed = 0
    for folder in day_folders(lake):
        for path in folder.glob("*.part"):
            with suppress(OSError):
                if path.stat().st_mtime < until_s:
                    path.unlink()
                    removed += 1
    return removed
