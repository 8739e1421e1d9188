"""Picking rows out of values whose fields are columns."""

from dataclasses import fields, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Value = TypeVar("Value")
Rows = NDArray[np.intp] | NDArray[np.bool_]


def rows_of(value: Value, rows: Rows) -> Value:
    """The same value with these rows of every column; fields that are single numbers stay as they are."""
    picked = {name: column[rows] for name, column in _columns(value)}
    return replace(value, **picked)  # type: ignore[type-var]


def row_of(value: Value, row: int) -> Value:
    """The value of one row: every column becomes a number."""
    picked = {name: column[row].item() for name, column in _columns(value)}
    return replace(value, **picked)  # type: ignore[type-var]


def _columns(value: object) -> list[tuple[str, NDArray[np.float64]]]:
    named_columns = ((field.name, getattr(value, field.name)) for field in fields(value))  # type: ignore[arg-type]
    return [(name, column) for name, column in named_columns if isinstance(column, np.ndarray) and column.ndim]
