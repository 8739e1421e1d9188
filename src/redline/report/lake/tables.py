"""An answer of the lake as a table of text."""

from collections.abc import Callable, Mapping

from redline.analysis.accounts import Account
from redline.findings.pages import codes, page_of
from redline.lake.lake_answer import AnswerColumn, Cell
from redline.report.diagnose import account_messages
from redline.report.lake.lake_messages import CAUSES, empty, heading, notes, title
from redline.report.lake.lake_results import LakeAskResult
from redline.report.language import _, spoken
from redline.report.report_table import ReportTable
from redline.report.text_parts import clipped, percent
from redline.units import format_ns

_LEAST_CHANCE = 1e-9
_LONGEST = 120  # letters of a cell


def answer_table(result: LakeAskResult) -> ReportTable:
    columns = result.answer.columns
    head = [heading(column.name, result.question) for column in columns]
    rows = [
        [shown(value, column.kind) for value, column in zip(row, columns, strict=True)] for row in result.answer.rows
    ]
    _add_titles(head, rows, columns)
    return ReportTable(
        title=title(result),
        head=tuple(head),
        rows=tuple(map(tuple, rows)),
        notes=tuple(notes(result)),
        empty=empty(result.question),
    )


def _add_titles(head: list[str], rows: list[list[str]], columns: tuple[AnswerColumn, ...]) -> None:
    """Beside the code of a finding what it is called, where this version has its page."""
    place = next((place for place, column in enumerate(columns) if column.kind == "finding"), None)
    if place is None:
        return
    known = set(codes())
    head.insert(place + 1, _("title"))
    for row in rows:
        row.insert(place + 1, page_of(row[place], spoken()).title if row[place] in known else "-")


def shown(value: Cell, kind: str) -> str:
    """One cell."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return _("yes") if value else "-"
    if isinstance(value, str):
        return clipped(_named(value, kind), _LONGEST)
    return _AMOUNTS.get(kind, number)(value)


def _named(text: str, kind: str) -> str:
    if kind == "account":
        return account_messages.name(Account(text))
    return _(CAUSES[text]) if kind == "cause" and text in CAUSES else text


def _change(value: float) -> str:
    return f"{'+' if value >= 0 else ''}{percent(value)}"


def _chance(value: float) -> str:
    return f"{value:.1g}" if value >= _LEAST_CHANCE else f"<{_LEAST_CHANCE:.0e}"


def number(value: float) -> str:
    """1234.5 -> 1,234; 12.34 -> 12.3; 0.01234 -> 0.0123."""
    if isinstance(value, int):
        return f"{value:,}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


_AMOUNTS: Mapping[str, Callable[[float], str]] = {
    "share": percent,
    "change": _change,
    "duration": lambda value: format_ns(round(value)),
    "chance": _chance,
}
