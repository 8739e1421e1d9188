"""The result of `diagnose` as text for a terminal: one screen, then the tables that were asked for."""

import re
import textwrap
from collections.abc import Iterator, Sequence

from redline.analysis.job.combine import Diagnosis
from redline.analysis.job.outline import Outline
from redline.report.diagnose_screen import Line, Screen, screen_of
from redline.report.diagnose_tables import TABLES, Shown
from redline.report.diagnose_words import NO_ROWS
from redline.report.words import table
from redline.trace.job import Failure

WIDTH = 100
_LABEL_WIDTH = 10
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=%|[num]?s\b|[kMGTPE]?(?:B|FLOP)\b)")
_GLUE = "\u00a0"
_BAR_WIDTH = 52
_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
_FULL, _RIGHT_HALF = "█", "▐"


def render(
    diagnosis: Diagnosis,
    outline: Outline,
    failures: Sequence[Failure] = (),
    *,
    tables: Sequence[str] = (),
    verbose: bool = False,
    unicode: bool = True,
) -> str:
    """`tables` are names of TABLES. Without `unicode` the bars are of plain letters."""
    screen = screen_of(diagnosis, outline, failures)
    blocks = [
        [*_wrapped("", screen.headline, rest="  "), *_facts(screen)],
        list(_waterfall(screen, unicode=unicode)),
        list(_losses(screen)),
        list(_unseen(screen)),
        *(list(_table(TABLES[name](diagnosis, verbose=verbose))) for name in tables),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _facts(screen: Screen) -> Iterator[str]:
    for label, text in screen.facts:
        yield from _wrapped(f"{label:<{_LABEL_WIDTH}}", text)


def _wrapped(first: str, text: str, rest: str | None = None) -> list[str]:
    """Lines no wider than the screen, which never part a number from its unit."""
    indent = " " * len(first) if rest is None else rest
    whole = _BEFORE_UNIT.sub(_GLUE, text)
    lines = textwrap.wrap(whole, WIDTH, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace(_GLUE, " ") for line in lines] or [first.rstrip()]


def _waterfall(screen: Screen, *, unicode: bool) -> Iterator[str]:
    if not screen.waterfall:
        return
    yield "the average step of a rank, from the redline (math) up to what was measured"
    rows = [(line.account, line.time, line.share, line) for line in screen.waterfall]
    widths = [max(len(screen.step), *(len(row[1]) for row in rows)), max(len(row[2]) for row in rows)]
    for account, time, share, line in rows:
        bar = _bar(line) if unicode else _plain_bar(line)
        yield f"  {account:<15}  {time:>{widths[0]}} {screen.unit}  {share:>{widths[1]}}  {bar}".rstrip()
    end = f"  {'= step':<15}  {screen.step:>{widths[0]}} {screen.unit}"
    yield from _wrapped(f"{end}  ", screen.rest) if screen.rest else [end]


def _bar(line: Line) -> str:
    """From where the account starts to where it ends, to a half of a cell at the left and an eighth at the right."""
    halves, eighths = round(line.start * _BAR_WIDTH * 2), round(line.end * _BAR_WIDTH * 8)
    eighths = max(eighths, halves * 4 + 1)  # what is there is seen
    blank, starts_in_half = divmod(halves, 2)
    if starts_in_half and eighths <= blank * 8 + 8:
        return " " * blank + _RIGHT_HALF
    first = blank + 1 if starts_in_half else blank
    full, rest = divmod(eighths - first * 8, 8)
    return " " * blank + (_RIGHT_HALF if starts_in_half else "") + _FULL * full + _EIGHTHS[rest]


def _plain_bar(line: Line) -> str:
    start, end = round(line.start * _BAR_WIDTH), round(line.end * _BAR_WIDTH)
    start = min(start, _BAR_WIDTH - 1)
    return " " * start + "#" * max(end - start, 1)


def _losses(screen: Screen) -> Iterator[str]:
    if not screen.losses:
        return
    yield "largest accounts above the redline"
    for number, (amount, text) in enumerate(screen.losses, start=1):
        yield from _wrapped(f"  {number}. ", f"{amount}: {text}")


def _unseen(screen: Screen) -> Iterator[str]:
    if not screen.unseen:
        return
    yield "not seen"
    for sentence in screen.unseen:
        yield from _wrapped("  - ", sentence)


def _table(shown: Shown) -> Iterator[str]:
    yield shown.title
    if shown.rows:
        yield from (f"  {line}" for line in table(shown.head, shown.rows))
    yield from (f"  {note}" for note in (shown.notes if shown.rows else [NO_ROWS[shown.title]]))
