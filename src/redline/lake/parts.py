"""The files of a lake: each is whole from the moment it has its name, and is never changed afterwards.

    LAKE/day=2026-11-18/0f3c...-1795000000000000000-9b1d22aa.v2.parquet

The name says which digests are in it (a hash), when they were added, and in which schema. A digest in two files counts
once, by the row that was added later, so files may be merged and removed while others write and read.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

from redline.artifacts import Envelope, write_atomic
from redline.errors import InputError, OutputError
from redline.lake.extra import parquet
from redline.lake.schema import COLUMNS, KIND, SCHEMA_VERSION, STRUCTS

_NAME = re.compile(r"([0-9a-f]{16})-([0-9]{19})-([0-9a-f]{8})\.v([0-9]{1,9})\.parquet")
_DAY = re.compile(r"day=([0-9]{4}-[0-9]{2}-[0-9]{2})")
_ROW_GROUP = 32_768  # rows: as many as a core reads at once
_TRIES = 5  # to write into a day that retention removes at that moment
_SETTLED = 20  # times that a folder is listed until it stays the same
ENVELOPE = b"redline"


@dataclass(frozen=True, kw_only=True, order=True)
class LakePart:
    """One file, as its name tells it."""

    day: str
    added_ns: int
    content: str  # a hash of the digests in it
    unique: str
    schema_version: int
    path: Path

    @classmethod
    def of(cls, path: Path) -> "LakePart | None":
        """None for what is no part, such as a file that is still being written."""
        name, day = _NAME.fullmatch(path.name), _DAY.fullmatch(path.parent.name)
        if name is None or day is None:
            return None
        with suppress(ValueError):  # 2026-99-99
            return cls(
                day=str(date.fromisoformat(day[1])),
                added_ns=int(name[2]),
                content=name[1],
                unique=name[3],
                schema_version=int(name[4]),
                path=path,
            )
        return None


def parts_of(lake: Path) -> tuple[LakePart, ...]:
    """All files, in order. Parts may be merged meanwhile: the listing counts once it is the same twice in a row, so
    that none is missed between two names."""
    before = _listed(lake)
    for _ in range(_SETTLED):
        after = _listed(lake)
        if after == before:
            break
        before = after
    return before


def _listed(lake: Path) -> tuple[LakePart, ...]:
    return tuple(sorted(part for folder in day_folders(lake) for part in _parts_in(folder)))


def day_folders(lake: Path) -> list[Path]:
    try:
        return sorted(folder for folder in lake.iterdir() if _DAY.fullmatch(folder.name))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"{lake} cannot be read as a lake: {error.strerror}; give its folder") from error


def _parts_in(folder: Path) -> Iterator[LakePart]:
    with suppress(FileNotFoundError, NotADirectoryError):  # pruned since
        for path in folder.iterdir():
            part = LakePart.of(path)
            if part is not None:
                yield part


def write_part(lake: Path, table: Any, *, made_by: str) -> LakePart:
    """Rows of the current schema as a new file, beside all others; earlier files of the same digests are removed."""
    day = _day_of(table)
    folder = lake / f"day={day}"
    added_ns = max(table["added_ns"].to_pylist())
    path = folder / f"{_content_of(table)}-{added_ns:019d}-{os.urandom(4).hex()}.v{SCHEMA_VERSION}.parquet"
    for left in reversed(range(_TRIES)):
        _make_folder(folder)
        try:
            _write(path, table, made_by)
            break
        except OutputError:
            if not left or folder.exists():
                raise  # else retention took the day away, which was empty until now
    part = LakePart.of(path)
    assert part is not None  # it was named a moment ago
    _remove_earlier(part)
    return part


def _write(path: Path, table: Any, made_by: str) -> None:
    with write_atomic(path) as file:
        parquet().write_table(
            table.replace_schema_metadata({ENVELOPE: _envelope(table, made_by)}),
            file,
            compression="zstd",
            compression_level=6,
            row_group_size=_ROW_GROUP,
            use_dictionary=_DICTIONARIES,
            column_encoding=dict.fromkeys(_NUMBERS, "DELTA_BINARY_PACKED"),
            write_page_index=False,
        )


def _paths(kinds: Sequence[str]) -> list[str]:
    """Of the columns of these types, and of those inside of structs, as Parquet names them."""
    plain = [column.name for column in COLUMNS if column.type in kinds]
    nested = [
        f"{name}.list.element.{field}"
        for name, fields in STRUCTS.items()
        for field, (kind, _) in fields.items()
        if kind in kinds
    ]
    return plain + nested


_DICTIONARIES = _paths(["string", "double", "float"])
_NUMBERS = _paths(["int32", "int64"])


def _envelope(table: Any, made_by: str) -> bytes:
    import msgspec

    synthetic = any(table["synthetic"].to_pylist())
    envelope = Envelope(kind=KIND, schema_version=SCHEMA_VERSION, made_by=made_by, synthetic=synthetic)
    return msgspec.json.encode(envelope.to_dict())


def _day_of(table: Any) -> str:
    """In which its last window ended, in UTC."""
    return str(datetime.fromtimestamp(max(table["end_ns"].to_pylist()) / 1e9, UTC).date())


def _content_of(table: Any) -> str:
    ids = sorted(table["digest_id"].to_pylist())
    return blake2b(b"".join(number.to_bytes(8, "little", signed=True) for number in ids), digest_size=8).hexdigest()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"cannot write into {folder}: {error.strerror}; choose another folder for the lake"
        ) from error
    with suppress(OSError):  # some network filesystems cannot sync a folder
        above = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(above)
        finally:
            os.close(above)


def _remove_earlier(part: LakePart) -> None:
    """Those of the same digests. Of two writers at once the later one stays: nobody removes what comes after itself."""
    for other in _parts_in(part.path.parent):
        if other.content == part.content and other < part:
            remove(other.path)


def remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"cannot remove {path}: {error.strerror}; remove it by hand") from error


def first_day(last: date, days: int) -> str:
    """Of so many days, of which `last` is the last."""
    return str(date.fromordinal(max(last.toordinal() - days + 1, 1)))
