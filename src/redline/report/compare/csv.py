"""The accounts of a comparison as CSV: numbers as they are, in ns."""

import csv
import io

from redline.report.compare.compare_result import CompareResult


def render(result: CompareResult) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("account", "before_ns", "after_ns", "difference_ns"))
    for row in (*result.difference.accounts, result.difference.step):
        writer.writerow((row.name, float(row.before_ns), float(row.after_ns), float(row.difference_ns)))
    return text.getvalue()
