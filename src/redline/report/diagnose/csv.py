"""One table of a diagnosis as CSV: numbers as they are, and texts that no spreadsheet takes for a formula."""

import csv
import io
import unicodedata

from redline.report.diagnose.raw_tables import Cell, RawTable

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # the last four are wide letters
_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"})  # control, direction marks, unassigned, line breaks


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
    shown = "".join(letter for letter in text if unicodedata.category(letter) not in _HIDDEN)
    return f"'{shown}" if text.startswith(_FORMULA) or shown.startswith(_FORMULA) else shown
