"""A diagnosis as documents: what a terminal shows, a comment on a pull request, and what a notebook shows."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from redline.report.diagnose.diagnosed_job import DiagnosedJob
from redline.report.diagnose.finding_messages import findings_title
from redline.report.diagnose.findings_screen import Card
from redline.report.diagnose.replay_messages import replay_tables
from redline.report.diagnose.screen import Screen, screen_of
from redline.report.diagnose.tables import tables_of
from redline.report.display import Style, styled
from redline.report.document import (
    Block,
    Commands,
    Document,
    Entries,
    Entry,
    Folded,
    Heading,
    Items,
    LabelledLines,
    Paragraph,
)
from redline.report.language import _, listed, marked, sentences
from redline.report.markdown import escaped, markdown_of
from redline.report.serving.serving_tables import request_blocks
from redline.report.terminal import first_within

MOST_LINES = 41  # of the screen
MOST_FINDINGS = 3  # that are shown without -v
MOST_MEMORY_LINES = 17  # below the screen
MOST_LETTERS = 65_536  # of a comment on GitHub
MOST_COMMENTED = 5  # findings
_SPARE = (marked("window"), marked("coverage"), marked("device"))  # facts that say least

Blocks = Iterator[Block | tuple[Block, ...]]


class _Detail(NamedTuple):
    """How much is said of the findings, and beside them."""

    evidence: tuple[int, ...]  # sentences, of each finding that is shown; what names function and line comes besides
    fixes: int  # of so many of the first
    beside: int  # sentences of praise, and as many remarks
    facts: bool = False  # those that say least


_EVERYTHING = _Detail((1000,) * 1000, 1000, 1000, facts=True)
_LESS_AND_LESS = (
    _Detail((2, 2, 2), fixes=3, beside=2, facts=True),
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


def document_of(result: DiagnosedJob, *, tables: Sequence[str] = (), verbose: bool = False) -> Document:
    """As much as fits on one screen, or all that is known; memory and the tables that were asked for below."""
    screen = screen_of(result)
    details = (_EVERYTHING,) if verbose else _LESS_AND_LESS
    fitting = first_within((Document(blocks=tuple(_blocks(result, screen, detail))) for detail in details), MOST_LINES)
    return Document(blocks=(*fitting.blocks, *_memory(screen, verbose=verbose), *_tables(result, tables, verbose)))


def _blocks(result: DiagnosedJob, screen: Screen, detail: _Detail) -> Blocks:
    """The verdict and its reasons; then what weakens them, and what the traces are."""
    limit = styled(screen.verdict, Style.GOOD if result.findings.verdict.healthy else Style.LIMIT)
    verdict = sentences([limit, screen.second, styled(screen.growth, Style.LIMIT)])
    yield Heading(text=screen.headline), LabelledLines(lines=((_("verdict"), verdict),))
    yield screen.waterfall
    yield from request_blocks(result.serving)
    yield _findings(screen, detail)
    if detail is _EVERYTHING or not screen.explained:
        yield _losses(screen)
    elif screen.host:
        yield Paragraph(text=screen.host)
    cautious = [card for card in screen.remarks if card.doubts]  # what weakens a claim above is said in any case
    others = [card for card in screen.remarks[: detail.beside] if not card.doubts]
    yield (
        Items(items=screen.praise[: detail.beside], mark="+ ", style=Style.GOOD),
        Items(items=tuple(_remark(card, card.doubts) for card in cautious), mark="! ", style=Style.WARNING),
        Items(items=tuple(_remark(card, card.evidence) for card in others), mark="! ", style=Style.WARNING),
    )
    yield Items(title=_("not seen"), items=screen.unseen, mark="  - ", is_faint=True)
    spare = () if detail.facts else tuple(map(_, _SPARE))
    yield LabelledLines(lines=tuple((label, text) for label, text in screen.facts if label not in spare))


def _findings(screen: Screen, detail: _Detail) -> Entries:
    cards = tuple(zip(screen.cards, detail.evidence, strict=False))
    left = len(screen.cards) - len(cards)
    return Entries(
        title=findings_title(replayed=screen.replayed),
        entries=tuple(
            Entry(
                head=card.head,
                lines=tuple(_said(card, most, screen.verdict)),
                fix=_("Fix: {fix}").format(fix=card.fix) if number < detail.fixes else "",
            )
            for number, (card, most) in enumerate(cards)
        ),
        more=_("and {count} more: -v or --findings").format(count=left) if left > 0 else "",
    )


def _said(card: Card, most: int, verdict: str) -> Iterator[str]:
    """So many sentences that support the claim, those that name function and line, and each that weakens it, which the
    verdict may have said already."""
    supporting = [sentence for sentence in card.evidence if sentence not in card.doubts]
    yield from (text for number, text in enumerate(supporting) if number < most or text in card.located)
    doubts = sentences(sentence for sentence in card.doubts if sentence not in verdict)
    if doubts:
        yield doubts


def _losses(screen: Screen) -> Items:
    losses = tuple(_("{amount}: {text}").format(amount=amount, text=text) for amount, text in screen.losses)
    return Items(title=_("largest accounts above the redline"), items=losses, is_numbered=True)


def _remark(card: Card, said: Sequence[str]) -> str:
    return f"{card.code} {sentences(said)}"


def _memory(screen: Screen, *, verbose: bool) -> Blocks:
    """Below the screen of time, and no more than a part of another."""
    peak = screen.memory
    if peak is None:
        return

    def with_causes(count: int) -> Document:
        left = len(peak.causes) - count
        more = [_("and {count} more").format(count=left)] if left else []
        blocks = (
            peak.accounts if verbose else peak.few_accounts,
            LabelledLines(lines=peak.facts, indent="  "),
            Items(items=(*peak.causes[:count], *more), rest="    "),
            Items(items=peak.doubts, mark="  ! ", style=Style.WARNING),
            Commands(lines=((_("more"), peak.command),)),
        )
        return Document(blocks=(blocks,))

    fewer = map(with_causes, range(len(peak.causes), 0, -1)) if peak.causes else (with_causes(0),)
    yield from (with_causes(len(peak.causes)) if verbose else first_within(fewer, MOST_MEMORY_LINES)).blocks


def _tables(result: DiagnosedJob, tables: Sequence[str], verbose: bool) -> Blocks:
    yield from replay_tables(result.replayed, verbose=verbose)
    yield from tables_of(tables, result.diagnosis, result.findings, verbose=verbose)


# --- a comment --------------------------------------------------------------------------------------------------------


def comment_of(result: DiagnosedJob, *, tables: Sequence[str] = (), verbose: bool = False) -> Document:
    """With cause and fix folded below each finding; without these from the last one upwards where there is no room."""
    screen = screen_of(result)
    most = len(screen.cards) if verbose else MOST_COMMENTED
    before = (
        Heading(text=screen.headline),
        Paragraph(text=sentences([screen.verdict, screen.second, screen.growth])),
        *request_blocks(result.serving),
    )
    after = (
        LabelledLines(lines=screen.facts),
        screen.waterfall,
        *((_losses(screen),) if verbose or not screen.explained else ()),
        Items(title=_("done well"), items=screen.praise),
        Items(title=_("remarks"), items=tuple(_remark(card, card.evidence) for card in screen.remarks)),
        Items(title=_("not seen"), items=screen.unseen),
        *_memory(screen, verbose=True),
        *_tables(result, tables, verbose),
    )
    comment = Document(blocks=())
    for detailed in range(min(most, len(screen.cards)), -1, -1):
        comment = Document(blocks=(*before, _commented(screen, most, detailed), *after))
        if len(markdown_of(comment)) <= MOST_LETTERS:
            break
    return comment


def _commented(screen: Screen, most: int, detailed: int) -> Entries:
    rest = screen.cards[most:]
    more = _("And {count} more: {codes}.").format(count=len(rest), codes=listed(card.code for card in rest))
    return Entries(
        title=findings_title(replayed=screen.replayed),
        entries=tuple(
            Entry(head=card.head, lines=card.evidence, details=_details(card) if number < detailed else None)
            for number, card in enumerate(screen.cards[:most])
        ),
        more=more if rest else "",
    )


def _details(card: Card) -> Folded:
    """The prose is ours and Markdown already."""
    page = card.page
    parts = (
        (_("Cause"), page.cause),
        *([(_("Fix here"), escaped(card.fix_here))] if card.fix_here else []),
        (_("Smallest fix"), page.smallest_fix),
        (_("Thorough fix"), page.thorough_fix),
    )
    text = "\n\n".join(_("**{name}.** {prose}").format(name=name, prose=prose) for name, prose in parts)
    return Folded(title=_("Cause and fix"), content=text)


# --- a notebook -------------------------------------------------------------------------------------------------------


def notebook_document_of(result: DiagnosedJob) -> Document:
    screen = screen_of(result)
    left = len(screen.cards) - MOST_FINDINGS
    findings = _findings(screen, _Detail((1,) * MOST_FINDINGS, fixes=MOST_FINDINGS, beside=0))
    more = _("and {count} more: frame('findings') has all").format(count=left)
    return Document(
        blocks=(
            Heading(text=screen.verdict),
            *(Paragraph(text=text) for text in (screen.second, screen.growth, screen.headline) if text),
            screen.waterfall,
            replace(findings, more=more if left > 0 else ""),
            *_tables(result, (), verbose=False),
            *_memory(screen, verbose=True),
            Items(title=_("not seen"), items=screen.unseen),
        )
    )
