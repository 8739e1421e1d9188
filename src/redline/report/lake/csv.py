"""An answer of the lake as CSV: numbers as they are, and texts that no spreadsheet takes for a formula."""

import csv
import io

from redline.report.diagnose.csv import harmless
from redline.report.lake.lake_results import LakeAskResult


def render(result: LakeAskResult) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(harmless(column.name) for column in result.answer.columns)
    writer.writerows([harmless(cell) if isinstance(cell, str) else cell for cell in row] for row in result.answer.rows)
    return text.getvalue()
