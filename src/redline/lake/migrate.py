"""Rows of earlier schemas as rows of the current one, one version at a time."""

from collections.abc import Callable, Mapping
from typing import Any

from redline.lake.extra import compute, pyarrow
from redline.lake.schema import SCHEMA_VERSION, arrow_schema

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
        for codes in table["findings"].to_pylist()
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
