"""Blocks of a plan on a terminal: tables and lists."""

from collections.abc import Sequence

from redline.report.display import Style, columns, styled
from redline.report.document import ReportTable
from redline.report.terminal import table, wrapped


def table_block(shown: ReportTable) -> list[str]:
    """Nothing where there are no rows and nothing is to be said instead."""
    if not shown.rows:
        return [shown.title, f"  {shown.empty}"] if shown.empty else []
    notes = [line for note in shown.notes for line in wrapped(styled(note, Style.SECONDARY), columns(), "  ")]
    return [shown.title, *(f"  {line}" for line in table(shown.head, shown.rows)), *notes]


def list_block(title: str, lines: Sequence[str]) -> list[str]:
    return [title, *(part for line in lines for part in wrapped(line, columns(), "  - "))] if lines else []
