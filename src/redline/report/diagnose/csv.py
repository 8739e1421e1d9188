"""One table of a diagnosis as CSV."""

from redline.report.data import csv_text
from redline.report.diagnose.raw_tables import RawTable


def render(table: RawTable) -> str:
    return csv_text((column.name for column in table.columns), table.rows)
