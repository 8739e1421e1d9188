"""The way from the redline to the measured step, as bars of the page."""

from collections.abc import Iterator
from dataclasses import dataclass

from redline.ledger.job.first_screen import Outline
from redline.report.diagnose.screen import Screen
from redline.report.html.diagnose import account_names


@dataclass(frozen=True, kw_only=True)
class WaterfallRow:
    """One account; positions in percent of the step."""

    code: str
    name: str
    time: str
    share: str
    start: float
    width: float


def waterfall_rows(screen: Screen) -> Iterator[WaterfallRow]:
    for line in screen.waterfall:
        yield WaterfallRow(
            code=account_names.code(line.of),
            name=line.account,
            time=line.time,
            share=line.share,
            start=round(100 * line.start, 3),
            width=round(100 * (line.end - line.start), 3),
        )


def redline_percent(outline: Outline) -> float:
    """Where the arithmetic ends, in percent of the step; 0 where none of it is rated."""
    math = outline.waterfall[0]
    return round(100 * math.share, 3)
