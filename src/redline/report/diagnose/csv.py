"""One table of a diagnosis as CSV: numbers as they are, and texts that no spreadsheet takes for a formula."""

import csv
import io

from redline.report.diagnose.raw_tables import Cell, RawTable
from redline.report.terminal import is_hidden

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # the last four are wide letters


def render(table: RawTable) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(column.name for column in table.columns)
    writer.writerows(map(_cell, row) for row in table.rows)
    return text.getvalue()


def _cell(value: Cell) -> Cell:
    return harmless(value) if isinstance(value, str) else value


def harmless(text: str) -> str:
    """Without letters that are not seen, and with ' before what would begin a formula."""
    shown = "".join(letter for letter in text if not is_hidden(letter))
    return f"'{shown}" if text.startswith(_FORMULA) or shown.startswith(_FORMULA) else shown
