"""Two calibrations side by side as CSV: every figure that both have, numbers as they are."""

import csv
import io

from redline.probes.compare import Comparison
from redline.report.diagnose.csv import harmless

HEAD = (
    *("family", "quantity", "of", "unit", "first", "first_low", "first_high", "second", "second_low", "second_high"),
    *("difference", "ratio", "verdict"),
)


def render(comparison: Comparison) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEAD)
    for row in comparison.rows:
        estimates = [number for side in (row.first, row.second) for number in (side.value, side.low, side.high)]
        writer.writerow(
            (
                *map(harmless, (row.family, row.quantity, row.of, row.unit)),
                *estimates,
                row.second.value - row.first.value,
                row.finite_ratio,
                str(row.verdict),
            )
        )
    return text.getvalue()
