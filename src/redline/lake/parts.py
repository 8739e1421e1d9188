"""The files of a lake: each is whole from the moment it has its name, and is never changed afterwards.

    LAKE/day=2026-11-18/0f3c...-1795000000000000000-9b1d22aa.v2.parquet

The name says which digests are in it (a hash), when they were added, and in which schema. A digest in two files counts
once, by the row that was added later, so files may be merged and removed while others write and read.
"""

import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from redline import __version__
from redline.artifacts import Envelope, write_atomic
from redline.errors import InputError, OutputError
from redline.lake.extra import compute, dataset, parquet, pyarrow
from redline.lake.schema import COLUMNS, KIND, SCHEMA_VERSION, STRUCTS, arrow_schema

_HOUR_NS = 3_600_000_000_000


def migrated(table: Any, version: int) -> Any:
    """The same rows in the current schema."""
    while version < SCHEMA_VERSION:
        table = _MIGRATIONS[version](table)
        version += 1
    return table.select(arrow_schema().names)


def _from_1(table: Any) -> Any:
    """Schema 1 had no labels but the job, the codes of findings alone, no operators, and windows for themselves."""
    arrow, count = pyarrow(), len(table)
    gains = [
        [{"code": code, "alone_share": None, "bound_share": None} for code in codes or ()]
        for codes in table["findings"].cast(arrow.list_(arrow.string())).to_pylist()
    ]
    lengths_ns = compute().subtract(table["end_ns"], table["start_ns"])
    columns: dict[str, Any] = {
        **{name: table[name] for name in table.column_names},
        "team": [""] * count,
        "model": [""] * count,
        "cluster": [""] * count,
        "gpu_hours": compute().divide(compute().cast(lengths_ns, "double"), float(_HOUR_NS)),
        "hours_from": ["window"] * count,
        "findings": gains,
        "operators": [[]] * count,
    }
    schema = arrow_schema()
    arrays = [
        values.cast(field.type) if hasattr(values := columns[field.name], "cast") else arrow.array(values, field.type)
        for field in schema
    ]
    return arrow.table(arrays, schema=schema)


_MIGRATIONS: Mapping[int, Callable[[Any], Any]] = {1: _from_1}


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
    day = str(datetime.fromtimestamp(max(table["end_ns"].to_pylist()) / 1e9, UTC).date())
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
    """The first of so many days, of which `last` is the last."""
    return str(date.fromordinal(max(last.toordinal() - days + 1, 1)))


_NEVER_NULL = ("digest_id", "added_ns", "job", "rank", "start_ns", "end_ns")
_LEAST_BYTES = 8  # of a row


def scanned(parts: Sequence[LakePart]) -> Any:
    """A pyarrow dataset, which reads columns when they are asked for; a table where parts are of an older schema."""
    refuse_newer(parts)
    for part in parts:
        _refuse_declared(part.path)
    current = [str(part.path) for part in parts if part.schema_version == SCHEMA_VERSION]
    older = [part for part in parts if part.schema_version < SCHEMA_VERSION]
    rows = dataset().dataset(current, schema=arrow_schema(), format="parquet") if current else None
    if rows is not None and not older:
        return rows
    tables = [] if rows is None else [rows.to_table()]
    return pyarrow().concat_tables([*tables, *(read_part(part) for part in older)])


def refuse_newer(parts: Sequence[LakePart]) -> None:
    newer = next((part for part in parts if part.schema_version > SCHEMA_VERSION), None)
    if newer is not None:
        raise InputError(
            f"{newer.path} is of schema {newer.schema_version}; this is Redline {__version__}, which reads up to "
            f"schema {SCHEMA_VERSION}: upgrade it"
        )


def read_part(part: LakePart) -> Any:
    """The whole file as a table in the current schema."""
    try:
        _refuse_declared(part.path)
        table = parquet().read_table(part.path, partitioning=None)
        rows = migrated(table, part.schema_version).cast(arrow_schema())
        if any(rows[name].null_count for name in _NEVER_NULL):
            raise ValueError(f"a row without {', '.join(_NEVER_NULL)}")
    except FileNotFoundError:
        raise
    except (pyarrow().ArrowException, OSError, KeyError, ValueError) as error:
        raise damaged(part.path, error) from error
    return rows


def _refuse_declared(path: Path) -> None:
    """InputError for more rows than a file of its length can have: the id of each is a hash, which nothing packs."""
    try:
        rows = parquet().read_metadata(path).num_rows
        if rows * _LEAST_BYTES > path.stat().st_size:
            raise ValueError(f"it claims to have {rows:,} rows")
    except FileNotFoundError:
        raise
    except (pyarrow().ArrowException, OSError, ValueError) as error:
        raise damaged(path, error) from error


def damaged(path: Path, error: BaseException) -> InputError:
    reason = str(error).split("\n", maxsplit=1)[0][:200]
    return InputError(f"{path}: damaged, or not of a lake ({reason}). Remove it and add its digests again")


def damaged_part(parts: Sequence[LakePart]) -> InputError | None:
    """Which of these files is to blame for a question that failed; None where all can be read."""
    for part in parts:
        try:
            read_part(part)
        except FileNotFoundError:
            continue
        except InputError as error:
            return error
    return None


def has_doubles(rows: Any) -> bool:
    """Tell whether a digest is in several rows: it was added again, or a merge of parts was cut short."""
    source = rows.select(["digest_id"]) if isinstance(rows, pyarrow().Table) else rows.to_table(columns=["digest_id"])
    ids = source["digest_id"].to_numpy()
    return len(np.unique(ids)) < len(ids)


def newest_of_each(table: Any) -> Any:
    """Rows with each digest once, in order of job and rank."""
    ids, added_ns = table["digest_id"].to_numpy(), table["added_ns"].to_numpy()
    order = np.lexsort((-added_ns, ids))
    first = np.ones(len(ids), bool)
    first[1:] = np.diff(ids[order]) != 0
    return table.take(pyarrow().array(np.sort(order[first]))).sort_by(
        [("job", "ascending"), ("start_ns", "ascending"), ("rank", "ascending")]
    )


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
    """Tell whether nobody else merges here: a matter of work, not of safety, as doubles count once."""
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


@dataclass(frozen=True, kw_only=True)
class PrunedLake:
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
    digests = sum(map(_rows_in, old))
    for part in old:
        remove(part.path)
    folders = {part.path.parent for part in old}
    for folder in folders:
        _remove_if_empty(folder)
    return PrunedLake(first_kept=first_kept, days=len(folders), digests=digests)


def _rows_in(part: LakePart) -> int:
    """0 of a damaged file, which goes as well."""
    try:
        return int(parquet().read_metadata(part.path).num_rows)
    except (OSError, pyarrow().ArrowException):
        return 0


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):  # somebody is adding to it
        folder.rmdir()
