"""The ladder of a search as CSV: numbers as they are, in seconds and bytes."""

import csv
import io

from redline.report.tune.ladder import LadderRow, ladder_rows
from redline.tuning.tune_result import TuneResult

_HEAD = ("rung", "lever", "change", "low", "high", "step_s", "peak_bytes", "numbers")


def render(result: TuneResult) -> str:
    rows = ladder_rows(result)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_HEAD)
    writer.writerow(_cells("start", rows.start))
    writer.writerows(_cells(str(row.number), row) for row in rows.rungs)
    if rows.whole:
        writer.writerow(_cells("whole", rows.whole))
    return text.getvalue()


def _cells(name: str, row: LadderRow) -> tuple[object, ...]:
    change = row.change
    bounds = (change.change, _bound(change.low), _bound(change.high)) if change else ("", "", "")
    return (name, row.lever, *bounds, row.step_s or "", row.peak_bytes or "", str(row.numbers or ""))


def _bound(bound: float) -> float | str:
    return bound if -1 < bound < float("inf") else ""
