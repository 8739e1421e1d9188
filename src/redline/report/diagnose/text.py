"""The result of `diagnose` as text for a terminal: one screen, then the tables that were asked for."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from redline.ledger.accounts import COMMUNICATION, IDLE, Account
from redline.report.diagnose.diagnosed_job import DiagnosedJob
from redline.report.diagnose.finding_messages import findings_title
from redline.report.diagnose.findings_screen import Card
from redline.report.diagnose.replay_messages import replay_tables
from redline.report.diagnose.screen import Screen, screen_of
from redline.report.diagnose.tables import tables_of
from redline.report.display import PLAIN_COLUMNS, Style, columns, most_lines, styled
from redline.report.document import ReportTable
from redline.report.language import _, marked, sentences
from redline.report.serving.serving_tables import text_blocks
from redline.report.terminal import BAR_WIDTH, as_text, bar, fitted, headline, labelled, left, table, width_of, wrapped

if TYPE_CHECKING:
    from redline.report.diagnose.memory_screen import MemoryLine, MemoryPeak

MOST_LINES = 40  # of the screen
MOST_FINDINGS = 3  # that are shown without -v
MOST_MEMORY_LINES = 15  # below the screen
_LABEL_WIDTH = 10
_SPARE = (marked("window"), marked("coverage"), marked("device"))  # facts, what says least first


def render(result: DiagnosedJob, *, tables: Sequence[str] = (), verbose: bool = False, unicode: bool = True) -> str:
    """`tables` are names of tables. Without `unicode` the bars are of plain letters."""
    screen = screen_of(result)
    said = list(_verdict(screen, Style.GOOD if result.findings.verdict.healthy else Style.LIMIT))
    between = [list(_waterfall(screen, unicode=unicode))]
    between += [] if result.serving is None else text_blocks(result.serving)
    after = [list(_unseen(screen))]
    room = most_lines(MOST_LINES) - len(said) - sum(len(block) + 1 for block in (*between, *after) if block) - 1
    facts, findings = _fitting(screen, room, verbose=verbose)
    blocks = [
        [*said, *facts],
        *between,
        *findings,
        *after,
        list(_memory(screen, verbose=verbose)),
        *(list(_table(shown)) for shown in replay_tables(result.replayed, verbose=verbose)),
        *(list(_table(shown)) for shown in tables_of(tables, result.diagnosis, result.findings, verbose=verbose)),
    ]
    return as_text(blocks)


def _verdict(screen: Screen, verdict: Style) -> Iterator[str]:
    yield from headline(screen.headline)
    said = sentences([styled(screen.verdict, verdict), screen.second, styled(screen.growth, Style.LIMIT)])
    yield from labelled(_("verdict"), said, _LABEL_WIDTH)


def _facts(screen: Screen, spared: int) -> Iterator[str]:
    """Without so many of those that say least."""
    left_out = set(map(_, _SPARE[:spared]))
    for label, text in screen.facts:
        if label not in left_out:
            yield from labelled(label, text, _LABEL_WIDTH)


# --- the waterfall ----------------------------------------------------------------------------------------------------


_BAR_STYLES = {
    **dict.fromkeys(Account, Style.LOST),
    **dict.fromkeys((Account.MATH, Account.MEMORY), Style.COMPUTE),
    **dict.fromkeys(COMMUNICATION, Style.TRAFFIC),
    **dict.fromkeys(IDLE, Style.IDLE),
}


def _waterfall(screen: Screen, *, unicode: bool) -> Iterator[str]:
    whole = screen.waterfall
    if not whole.bars:
        return
    yield whole.title
    widest = max(map(len, (whole.total, *(part.amount for part in whole.bars))))
    shares = max(len(part.share) for part in whole.bars)
    bar_width = BAR_WIDTH + columns() - PLAIN_COLUMNS
    for part in whole.bars:
        drawn = styled(bar(part.start, part.end, unicode=unicode, width=bar_width), _BAR_STYLES[Account(part.code)])
        yield f"  {left(part.name, 15)}  {part.amount:>{widest}}  {part.share:>{shares}}  {drawn}".rstrip()
    end = f"  {left(whole.total_name, 15)}  {whole.total:>{widest}}"
    yield from wrapped(whole.of, columns(), f"{end}  ") if whole.of else [end]


# --- findings ---------------------------------------------------------------------------------------------------------


class _Detail(NamedTuple):
    """How much is said of the findings, and beside them."""

    evidence: tuple[int, ...]  # sentences, of each finding that is shown; what names function and line comes besides
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
    _Detail((0, 0, 0), fixes=0, beside=0),  # people read the first three
    _Detail((0,), fixes=1, beside=0),
    _Detail((0,), fixes=0, beside=0),
)


def _fitting(screen: Screen, room: int, *, verbose: bool) -> tuple[list[str], list[list[str]]]:
    """Facts and findings, as much as there is room for, where facts go first; everything where that was asked for."""
    if verbose:
        return list(_facts(screen, 0)), _blocks(screen, _EVERYTHING)
    facts: list[str] = []
    blocks: list[list[str]] = []
    less = [(spared, _LESS_AND_LESS[0]) for spared in range(len(_SPARE))]
    for spared, detail in (*less, *((len(_SPARE), detail) for detail in _LESS_AND_LESS)):
        facts, blocks = list(_facts(screen, spared)), _blocks(screen, detail)
        if len(facts) + sum(len(block) + 1 for block in blocks if block) - 1 <= room:
            break
    return facts, blocks


def _blocks(screen: Screen, detail: _Detail) -> list[list[str]]:
    is_all = not screen.explained or detail is _EVERYTHING
    losses = list(_losses(screen) if is_all else wrapped(screen.host, columns()) if screen.host else ())
    return [list(_cards(screen, detail)), losses, list(_beside(screen, detail.beside))]


def _cards(screen: Screen, detail: _Detail) -> Iterator[str]:
    cards = screen.cards
    if not cards:
        return
    yield findings_title(replayed=screen.replayed)
    for number, (card, most) in enumerate(zip(cards, detail.evidence, strict=False), start=1):
        yield from wrapped(styled(card.head, Style.HEADING), columns(), f"  {number}. ")
        for sentence in _said(card, most, screen.verdict):
            yield from wrapped(sentence, columns(), "     ")
        if number <= detail.fixes:
            yield from wrapped(styled(_("Fix: {fix}").format(fix=card.fix), Style.GAIN), columns(), "     ")
    more = len(cards) - len(detail.evidence)
    if more > 0:
        yield "  " + _("and {count} more: -v or --findings").format(count=more)


def _said(card: Card, most: int, verdict: str) -> Iterator[str]:
    """So many sentences that support the claim, those that name function and line, and each that weakens it, which the
    verdict may have said already."""
    supporting = [sentence for sentence in card.evidence if sentence not in card.doubts]
    yield from (text for number, text in enumerate(supporting) if number < most or text in card.located)
    doubts = sentences(sentence for sentence in card.doubts if sentence not in verdict)
    if doubts:
        yield doubts


def _beside(screen: Screen, most: int) -> Iterator[str]:
    """What is done well, and remarks: a line each, or whole where there is no limit.

    A remark that weakens what is claimed above is there in any case, and whole.
    """
    good, warning = styled("+ ", Style.GOOD), styled("! ", Style.WARNING)
    praise = [(good, sentence) for sentence in screen.praise[:most]]
    first = screen.remarks[:most]
    remarks = [(warning, f"{card.code} {sentences(card.doubts)}") for card in screen.remarks if card.doubts] + [
        (warning, f"{card.code} {sentences(card.evidence)}") for card in first if not card.doubts
    ]
    whole = {f"{card.code} {sentences(card.doubts)}" for card in screen.remarks}
    for mark, text in (*praise, *remarks):
        is_whole = most >= _EVERYTHING.beside or text in whole
        yield from wrapped(text, columns(), mark) if is_whole else _cut(text, mark)


def _cut(text: str, mark: str) -> list[str]:
    """To what is one line of plain text, also on a narrower display."""
    lines = wrapped(text, max(columns(), PLAIN_COLUMNS) - 4, "  ")
    return wrapped(lines[0].strip() if len(lines) == 1 else f"{lines[0].strip()} ...", columns(), mark)


def _losses(screen: Screen) -> Iterator[str]:
    if not screen.losses:
        return
    yield _("largest accounts above the redline")
    for number, (amount, text) in enumerate(screen.losses, start=1):
        yield from wrapped(_("{amount}: {text}").format(amount=amount, text=text), columns(), f"  {number}. ")


# --- memory -----------------------------------------------------------------------------------------------------------


def _memory(screen: Screen, *, verbose: bool) -> Iterator[str]:
    """Below the screen of time, and no more than a part of another."""
    peak = screen.memory
    if peak is None:
        return
    above = [peak.title, *_account_lines(peak.accounts if verbose else peak.few_accounts)]
    above += [line for label, text in peak.facts for line in labelled(label, text, _LABEL_WIDTH, "  ")]
    below = [line for doubt in peak.doubts for line in wrapped(doubt, columns(), styled("  ! ", Style.WARNING))]
    below += labelled(_("more"), peak.command, _LABEL_WIDTH, "  ")
    yield from above
    yield from _memory_causes(peak, MOST_MEMORY_LINES - len(above) - len(below), verbose=verbose)
    yield from below


def _account_lines(lines: "Sequence[MemoryLine]") -> Iterator[str]:
    names = max((width_of(line.name) for line in lines), default=0)
    for line in lines:
        yield f"  {left(line.name, names)}  {line.size:>9}  {line.share:>7}"


def _memory_causes(peak: "MemoryPeak", room: int, *, verbose: bool) -> Iterator[str]:
    """As many as there is room for, one at least; all where that was asked for."""
    shown = [wrapped(cause, columns(), "  ", "    ") for cause in peak.causes]
    while not verbose and len(shown) > 1 and sum(map(len, shown)) + (len(shown) < len(peak.causes)) > room:
        shown.pop()
    yield from (line for lines in shown for line in lines)
    if len(shown) < len(peak.causes):
        yield "  " + _("and {count} more").format(count=len(peak.causes) - len(shown))


# --- the rest ---------------------------------------------------------------------------------------------------------


def _unseen(screen: Screen) -> Iterator[str]:
    if not screen.unseen:
        return
    yield _("not seen")
    for sentence in screen.unseen:
        yield from wrapped(styled(sentence, Style.SECONDARY), columns(), "  - ")


def _table(shown: ReportTable) -> Iterator[str]:
    yield shown.title
    if shown.rows:
        yield from (f"  {line}" for line in table(shown.head, shown.rows))
    for note in shown.notes if shown.rows else [shown.empty]:
        yield from fitted(styled(note, Style.SECONDARY), "  ")
