"""The result of `diagnose` as text for a terminal: one screen, then the tables that were asked for."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from redline.analysis.job.combine import Diagnosis
from redline.analysis.job.first_screen import Outline
from redline.findings.finding import Findings
from redline.launch.captured import Captured
from redline.ranks.read_failures import Failure
from redline.report.bars import bar
from redline.report.diagnose.findings_screen import Card
from redline.report.diagnose.screen import Screen, screen_of
from redline.report.diagnose.tables import tables_of
from redline.report.language import _, sentences
from redline.report.redaction.redactor import Removed
from redline.report.report_table import ReportTable
from redline.report.terminal import as_text, left, wrapped
from redline.report.text_parts import table

WIDTH = 100
MOST_LINES = 40  # of the screen
MOST_FINDINGS = 3  # that are shown without -v
_LABEL_WIDTH = 10


def render(  # noqa: PLR0913 (what a diagnosis consists of, and how to show it)
    diagnosis: Diagnosis,
    outline: Outline,
    findings: Findings,
    failures: Sequence[Failure] = (),
    *,
    tables: Sequence[str] = (),
    verbose: bool = False,
    unicode: bool = True,
    removed: Sequence[Removed] | None = None,
    captured: Captured | None = None,
) -> str:
    """`tables` are names of tables. Without `unicode` the bars are of plain letters."""
    screen = screen_of(diagnosis, outline, findings, failures, removed, captured)
    before = [
        [*wrapped(screen.headline, WIDTH, rest="  "), *_facts(screen)],
        list(_waterfall(screen, unicode=unicode)),
    ]
    after = [list(_unseen(screen))]
    room = MOST_LINES - sum(len(block) + 1 for block in (*before, *after) if block)
    blocks = [
        *before,
        *_findings(screen, room, verbose=verbose),
        *after,
        *(list(_table(shown)) for shown in tables_of(tables, diagnosis, findings, verbose=verbose)),
    ]
    return as_text(blocks)


def _facts(screen: Screen) -> Iterator[str]:
    for label, text in ((_("verdict"), sentences([screen.verdict, screen.second])), *screen.facts):
        yield from wrapped(text, WIDTH, left(label, _LABEL_WIDTH))


# --- the waterfall ----------------------------------------------------------------------------------------------------


def _waterfall(screen: Screen, *, unicode: bool) -> Iterator[str]:
    if not screen.waterfall:
        return
    yield screen.waterfall_title
    rows = [(line.account, line.time, line.share, line) for line in screen.waterfall]
    widths = [max(len(screen.step), *(len(row[1]) for row in rows)), max(len(row[2]) for row in rows)]
    for account, time, share, line in rows:
        drawn = bar(line.start, line.end, unicode=unicode)
        yield f"  {left(account, 15)}  {time:>{widths[0]}} {screen.unit}  {share:>{widths[1]}}  {drawn}".rstrip()
    end = "  " + left(_("= step"), 15) + f"  {screen.step:>{widths[0]}} {screen.unit}"
    yield from wrapped(screen.rest, WIDTH, f"{end}  ") if screen.rest else [end]


# --- findings ---------------------------------------------------------------------------------------------------------


class _Detail(NamedTuple):
    """How much is said of the findings, and beside them."""

    evidence: tuple[int, ...]  # sentences, of each finding that is shown
    fixes: int  # of so many of the first
    beside: int  # sentences of praise, and as many remarks


_EVERYTHING = _Detail((1000,) * 1000, 1000, 1000)
_LESS_AND_LESS = (
    _Detail((2, 2, 2), fixes=3, beside=2),
    _Detail((2, 1, 1), fixes=3, beside=2),
    _Detail((2, 1, 1), fixes=3, beside=1),
    _Detail((2, 1, 1), fixes=1, beside=1),
    _Detail((2, 1, 1), fixes=1, beside=0),
    _Detail((2, 1, 0), fixes=1, beside=1),
    _Detail((2, 1, 0), fixes=1, beside=0),
    _Detail((2, 0, 0), fixes=1, beside=1),
    _Detail((2, 0, 0), fixes=1, beside=0),
    _Detail((2, 0), fixes=1, beside=0),  # all evidence of the first finding matters more than the third one
    _Detail((1, 0, 0), fixes=1, beside=0),
    _Detail((0, 0, 0), fixes=1, beside=0),
    _Detail((0,), fixes=1, beside=0),
    _Detail((0,), fixes=0, beside=0),
)


def _findings(screen: Screen, room: int, *, verbose: bool) -> list[list[str]]:
    """As much as there is room for; everything where that was asked for."""
    if verbose:
        return _blocks(screen, _EVERYTHING)
    for detail in _LESS_AND_LESS:
        blocks = _blocks(screen, detail)
        if sum(len(block) + 1 for block in blocks if block) - 1 <= room:
            return blocks
    return _blocks(screen, _LESS_AND_LESS[-1])


def _blocks(screen: Screen, detail: _Detail) -> list[list[str]]:
    losses = [] if screen.explained and detail is not _EVERYTHING else list(_losses(screen))
    return [list(_cards(screen.cards, detail)), losses, list(_beside(screen, detail.beside))]


def _cards(cards: Sequence[Card], detail: _Detail) -> Iterator[str]:
    if not cards:
        return
    yield _("findings, by what they can gain at most")
    for number, (card, most) in enumerate(zip(cards, detail.evidence, strict=False), start=1):
        yield from wrapped(card.head, WIDTH, f"  {number}. ")
        for sentence in card.evidence[:most]:
            yield from wrapped(sentence, WIDTH, "     ")
        if number <= detail.fixes:
            yield from wrapped(_("Fix: {fix}").format(fix=card.fix), WIDTH, "     ")
    more = len(cards) - len(detail.evidence)
    if more > 0:
        yield "  " + _("and {count} more: -v or --findings").format(count=more)


def _beside(screen: Screen, most: int) -> Iterator[str]:
    """What is done well, and remarks: a line each, or whole where there is no limit."""
    praise = [("+ ", sentence) for sentence in screen.praise[:most]]
    remarks = [("! ", f"{card.code} {sentences(card.evidence)}") for card in screen.remarks[:most]]
    for mark, text in (*praise, *remarks):
        yield from wrapped(text, WIDTH, mark) if most >= _EVERYTHING.beside else _cut(text, mark)


def _cut(text: str, mark: str) -> list[str]:
    lines = wrapped(text, WIDTH - 4, mark)
    return lines if len(lines) == 1 else [f"{lines[0]} ..."]


def _losses(screen: Screen) -> Iterator[str]:
    if not screen.losses:
        return
    yield _("largest accounts above the redline")
    for number, (amount, text) in enumerate(screen.losses, start=1):
        yield from wrapped(_("{amount}: {text}").format(amount=amount, text=text), WIDTH, f"  {number}. ")


# --- the rest ---------------------------------------------------------------------------------------------------------


def _unseen(screen: Screen) -> Iterator[str]:
    if not screen.unseen:
        return
    yield _("not seen")
    for sentence in screen.unseen:
        yield from wrapped(sentence, WIDTH, "  - ")


def _table(shown: ReportTable) -> Iterator[str]:
    yield shown.title
    if shown.rows:
        yield from (f"  {line}" for line in table(shown.head, shown.rows))
    yield from (f"  {note}" for note in (shown.notes if shown.rows else [shown.empty]))
