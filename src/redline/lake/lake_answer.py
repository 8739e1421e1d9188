"""The answer to a question: named columns with their kinds, and rows of plain values."""

import math
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

Cell = str | int | float | bool | None
KINDS = ("text", "count", "hours", "share", "change", "duration", "money", "chance", "number")


@dataclass(frozen=True, kw_only=True)
class AnswerColumn:
    """A column of an answer; its kind says how it is shown."""

    name: str
    kind: str = "number"


@dataclass(frozen=True, kw_only=True)
class LakeAnswer:
    """Rows, and what is to be known about them."""

    columns: tuple[AnswerColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]
    cut: bool = False  # there were more rows than are kept
    facts: dict[str, Cell] = field(default_factory=dict)  # figures of the notes, by name

    def column(self, name: str) -> tuple[Cell, ...]:
        place = [column.name for column in self.columns].index(name)
        return tuple(row[place] for row in self.rows)


def plain_value(value: Any) -> Cell:
    """Of any type of SQL, as a number or a text; what is infinite or no number is none."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float | Decimal):
        number = float(value)
        return number if math.isfinite(number) else None
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return str(value)
