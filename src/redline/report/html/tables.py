"""Tables that sort and filter: the cells of the other reports, each with the number to sort it by."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from redline.report.document import ReportTable
from redline.report.language import _

MOST_ROWS = 400
_AMOUNT = re.compile(
    r"[<>]?(?P<number>[-+]?[\d,]{0,99}\.?\d{1,99}(?:e[+-]?\d\d?)?)"
    r"(?:x| (?P<prefix>[KMGT]i|[numkMGTPE]?)(?P<unit>s|B|B/s|FLOP/s|OP/s|%)| (?P<thousands>[kMT]))?"
    r"(?: ±[\d.]+ %| [\d.]+x\.\.>?[\d.]+x)?"  # an interval
)
_PREFIXES = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_PREFIXES |= {"Ki": 1024.0, "Mi": 1024.0**2, "Gi": 1024.0**3, "Ti": 1024.0**4}
_NOTHING = ("-", "")


@dataclass(frozen=True, kw_only=True)
class SortedTable:
    """Cells as text; for each column of amounts what to sort it by."""

    head: list[str]
    rows: list[list[str]]
    keys: dict[int, list[float | None]]  # of columns of amounts; others are sorted as text
    notes: list[str]


def sorted_table(shown: ReportTable, most: int = MOST_ROWS) -> SortedTable:
    """The first rows of a table, with a note on how many more there are."""
    rows = [list(row) for row in shown.rows[:most]]
    columns = [[row[column] for row in rows] for column in range(len(shown.head))]
    more = len(shown.rows) - len(rows)
    cut = [_("{count:,} further rows are left out here; JSON has them all").format(count=more)] if more > 0 else []
    return SortedTable(
        head=list(shown.head),
        rows=rows,
        keys={number: [amount(cell) for cell in column] for number, column in enumerate(columns) if _amounts(column)},
        notes=[*cut, *shown.notes],
    )


def _amounts(cells: Sequence[str]) -> bool:
    """Whether each cell of a column is one, or stands in the place of one."""
    return all(cell in _NOTHING or amount(cell) is not None for cell in cells)


def amount(cell: str) -> float | None:
    """1.235 ms -> 0.001235; None for what is no amount, such as 64x64."""
    match = _AMOUNT.fullmatch(cell)
    if match is None:
        return None
    return float(match["number"].replace(",", "")) * _PREFIXES[match["prefix"] or match["thousands"] or ""]


def table_text() -> dict[str, str]:
    """What tables say, on every page."""
    return {
        "rows": _("{shown} of {all} rows"),
        "show_all": _("Show all {all} rows"),
        "show_fewer": _("Show fewer"),
    }
