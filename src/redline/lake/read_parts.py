"""From the files of a lake to one table for questions: older schemas migrated, digests that are in two files once."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from redline import __version__
from redline.errors import InputError
from redline.lake.extra import dataset, parquet, pyarrow
from redline.lake.migrate import migrated
from redline.lake.parts import LakePart
from redline.lake.schema import SCHEMA_VERSION, arrow_schema

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
    """Whether a digest is in several rows: it was added again, or a merge of parts was cut short."""
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
