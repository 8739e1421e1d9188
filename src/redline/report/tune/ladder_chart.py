"""The ladder as bars: what a step takes, or the memory it needs, from the start down the rungs, with its interval."""

from collections.abc import Iterator
from dataclasses import dataclass

from redline.report.compare.sentences import signed
from redline.report.language import _
from redline.report.tune.ladder import LadderRow, LadderRows
from redline.report.tune.sentences import amount_text, time_name
from redline.report.tune.tables import row_name
from redline.tuning.tune_result import Objective

_ROOM = 1.02  # of the longest bar, so that its interval is seen
_UNKNOWN = "-"


@dataclass(frozen=True, kw_only=True)
class LadderBar:
    """One row of the chart; lengths and places in percent of the track."""

    name: str
    amount: str
    change: str  # on top of the row before, or of the whole; "" for the start
    length: float
    before: float  # the end of the bar that it is measured against
    low: float
    high: float
    has_interval: bool
    is_whole: bool
    beside: str  # the other amount: memory where time was the objective, and the reverse
    beside_length: float


@dataclass(frozen=True, kw_only=True)
class LadderChart:
    """All rows; `beside` is what the second bars are."""

    bars: tuple[LadderBar, ...]
    what: str
    beside: str  # "" where it is not known


def ladder_chart(rows: LadderRows, objective: Objective) -> LadderChart | None:
    """None where there is nothing to draw."""
    longest = _ROOM * max(row.amount for row in rows.all)
    if not rows.rungs or longest <= 0:
        return None
    by_memory = objective is Objective.MEMORY
    time, memory = time_name(rows.timed), _("peak memory")
    known = any(_beside(row, objective) for row in rows.all)
    return LadderChart(
        bars=tuple(_bars(rows, objective, longest)),
        what=memory if by_memory else time,
        beside=(time if by_memory else memory) if known else "",
    )


def _bars(rows: LadderRows, objective: Objective, longest: float) -> Iterator[LadderBar]:
    other = Objective.TIME if objective is Objective.MEMORY else Objective.MEMORY
    most_beside = max(_beside(row, objective) for row in rows.all) or 1.0
    before = rows.start.amount
    for row in rows.all:
        if row is rows.whole:
            before = rows.start.amount
        low, high = row.bounds(before)
        beside = _beside(row, objective)
        yield LadderBar(
            name=row_name(row, rows),
            amount=amount_text(objective, row.amount),
            change=signed(row.change.change) if row.change else "",
            length=_percent(row.amount, longest),
            before=_percent(before, longest),
            low=_percent(low, longest),
            high=_percent(high, longest),
            has_interval=row.change is not None,
            is_whole=row is rows.whole,
            beside=amount_text(other, beside) if beside else _UNKNOWN,
            beside_length=_percent(beside, most_beside),
        )
        before = row.amount


def _beside(row: LadderRow, objective: Objective) -> float:
    return (row.step_s or 0.0) if objective is Objective.MEMORY else float(row.peak_bytes)


def _percent(part: float, whole: float) -> float:
    return round(100 * min(max(part / whole, 0.0), 1.0), 2)
