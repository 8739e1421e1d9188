"""The tables of a diagnosis for programs: plain numbers with their units in the names of columns, as CSV and frames."""

from collections.abc import Callable, Iterable, Mapping
from math import isnan
from typing import TYPE_CHECKING, Any

from redline.report.data import csv_text
from redline.report.diagnose import tables
from redline.report.diagnose.diagnosed_job import DiagnosedJob
from redline.report.document import ReportColumn
from redline.report.language import speaking

if TYPE_CHECKING:
    import pandas as pd

_WATERFALL = (
    ReportColumn("account", kind="code"),
    *(ReportColumn(name, kind="number") for name in ("time_ns", "before_ns", "share")),
)
COLUMNS: Mapping[str, tuple[ReportColumn, ...]] = {
    name: tuple(column for column in columns if column.name)
    for name, columns in {
        "findings": tables.finding_columns(),
        "kernels": tables.kernel_columns(),
        "collectives": tables.collective_columns(),
        "ranks": tables.rank_columns(),
        "steps": tables.step_columns(),
        "host": tables.host_columns(),
        "waterfall": _WATERFALL,
        "phases": tables.phase_columns(),
    }.items()
}
"""Of each table, in order. docs/reference/python.md says what they mean."""

_ROWS: Mapping[str, Callable[[DiagnosedJob], Iterable[object]]] = {
    "findings": lambda result: (*result.findings.findings, *result.findings.remarks),
    "kernels": lambda result: result.diagnosis.kernels,
    "collectives": lambda result: result.diagnosis.collectives,
    "ranks": lambda result: tables.rank_rows(result.diagnosis),
    "steps": lambda result: tables.steps_of_ranks(result.diagnosis),
    "host": lambda result: result.diagnosis.doing,
    "waterfall": lambda result: result.outline.waterfall,
    "phases": lambda result: result.diagnosis.phases,
}


def raw_rows(name: str, result: DiagnosedJob) -> list[tuple[Any, ...]]:
    """In English, whatever language is spoken: programs read it."""
    columns = [(column, _CELL[column.kind]) for column in COLUMNS[name]]
    with speaking("en"):
        return [tuple(cell(column.value(row)) for column, cell in columns) for row in _ROWS[name](result)]


def _number(value: float | None) -> float | None:
    return None if value is None or isnan(value) else float(value)


_CELL: Mapping[str, Callable[[Any], Any]] = {
    "text": str,
    "code": lambda words: str(words).replace(" ", "_"),
    "whole": lambda count: count,
    "number": _number,
}


def csv_of(name: str, result: DiagnosedJob) -> str:
    return csv_text((column.name for column in COLUMNS[name]), raw_rows(name, result))


def frame_of(name: str, result: DiagnosedJob) -> "pd.DataFrame":
    """Missing numbers are NaN."""
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("data frames need pandas: pip install 'redline-perf[frames]'") from error
    types = {"whole": "int64", "number": "float64"}
    rows = raw_rows(name, result)
    return pd.DataFrame(
        {
            column.name: pd.Series([row[place] for row in rows], dtype=types.get(column.kind, "object"))
            for place, column in enumerate(COLUMNS[name])
        }
    )
