"""The result of `diagnose` as Markdown, as GitHub and GitLab show it: the first screen and the tables asked for."""

from collections.abc import Iterable, Iterator, Sequence

from redline.report.diagnose.diagnosed_job import DiagnosedJob
from redline.report.diagnose.finding_messages import findings_title
from redline.report.diagnose.findings_screen import Card
from redline.report.diagnose.replay_messages import replay_tables
from redline.report.diagnose.screen import Screen, screen_of
from redline.report.diagnose.tables import tables_of
from redline.report.document import ReportTable, StackedPart
from redline.report.language import _, listed, sentences
from redline.report.markdown import capitalised, escaped, markdown_table, table_rows
from redline.report.serving.serving_tables import cause_lines, engine_line, latency_table, metrics_line
from redline.report.terminal import as_text
from redline.serving.diagnose_serving import ServingDiagnosis

MOST_LETTERS = 65_536  # of a comment on GitHub
MOST_FINDINGS = 5
_BAR_WIDTH = 40


def render(result: DiagnosedJob, *, tables: Sequence[str] = (), verbose: bool = False) -> str:
    screen = screen_of(result)
    asked = tables_of(tables, result.diagnosis, result.findings, verbose=verbose)
    cards = len(screen.cards) if verbose else MOST_FINDINGS
    before = [
        [f"## {escaped(screen.headline)}"],
        [escaped(sentences([screen.verdict, screen.second, screen.growth]))],
    ]
    before += [] if result.serving is None else list(request_blocks(result.serving))
    after = [
        list(table_rows(("", ""), ((label, escaped(text)) for label, text in screen.facts), numbers=())),
        *_waterfall(screen),
        *(_losses(screen) if verbose or not screen.explained else ()),
        *_listed(_("Done well"), map(escaped, screen.praise), "-"),
        *_listed(_("Remarks"), (f"**{card.code}** {escaped(_said(card))}" for card in screen.remarks), "-"),
        *_listed(_("Not seen"), map(escaped, screen.unseen), "-"),
        *_memory(screen),
        *(block for shown in replay_tables(result.replayed, verbose=verbose) for block in _shown(shown)),
        *(block for shown in asked for block in _shown(shown)),
    ]
    room = MOST_LETTERS - len(as_text([*before, *after])) - 2
    return as_text([*before, *_findings(screen, cards, room), *after])


def request_blocks(serving: ServingDiagnosis) -> Iterator[list[str]]:
    """How long requests take, and why."""
    yield from _shown(latency_table(serving))
    yield [escaped(line) for line in (engine_line(serving), metrics_line(serving)) if line]
    yield [
        f"{number}. **{escaped(title)}.** {escaped(evidence)} `{fix}`"
        for number, (title, evidence, fix) in enumerate(cause_lines(serving), start=1)
    ]


# --- findings ---------------------------------------------------------------------------------------------------------


def _findings(screen: Screen, most: int, room: int) -> list[list[str]]:
    """With cause and fix folded below each; without these from the last one upwards where there is no room."""
    blocks: list[list[str]] = []
    for detailed in range(min(most, len(screen.cards)), -1, -1):
        blocks = list(_cards(screen, most, detailed))
        if len(as_text(blocks)) <= room:
            break
    return blocks


def _cards(screen: Screen, most: int, detailed: int) -> Iterator[list[str]]:
    cards = screen.cards
    if not cards:
        return
    title = findings_title(replayed=screen.replayed)
    yield [f"### {capitalised(title)}"]
    for number, card in enumerate(cards[:most], start=1):
        title, bound = escaped(f"{card.code} {card.title}"), escaped(card.gain)
        head = _("**{title}**: {bound}.").format(title=title, bound=bound)
        yield [f"{number}. {sentences([head, escaped(_said(card))])}"]
        if number <= detailed:
            yield _details(card)
    if len(cards) > most:
        rest = listed(card.code for card in cards[most:])
        yield [_("And {count} more: {codes}.").format(count=len(cards) - most, codes=rest)]


def _said(card: Card) -> str:
    return sentences(card.evidence)


def _details(card: Card) -> list[str]:
    """Folded; the prose is ours and Markdown already."""
    page = card.page
    here = [(_("Fix here"), escaped(card.fix_here))] if card.fix_here else []
    parts = (
        (_("Cause"), page.cause),
        *here,
        (_("Smallest fix"), page.smallest_fix),
        (_("Thorough fix"), page.thorough_fix),
    )
    text = "\n\n".join(_("**{name}.** {prose}").format(name=name, prose=prose) for name, prose in parts)
    summary = _("Cause and fix")
    folded = f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"
    return [f"   {line}".rstrip() for line in folded.splitlines()]


def _losses(screen: Screen) -> Iterator[list[str]]:
    known = ((account, escaped(text)) for account, text in screen.losses)
    items = (_("**{amount}**: {text}").format(amount=account, text=text) for account, text in known)
    yield from _listed(_("Largest accounts above the redline"), items, "1.")


# --- memory -----------------------------------------------------------------------------------------------------------


def _memory(screen: Screen) -> Iterator[list[str]]:
    peak = screen.memory
    if peak is None:
        return
    yield [f"### {escaped(capitalised(peak.title))}"]
    rows = ((escaped(line.name), line.size, line.share) for line in peak.accounts)
    yield list(table_rows((_("account"), _("size"), _("share")), rows, numbers=(1, 2)))
    more, command = _("more"), peak.command.replace("`", "")
    yield [
        *(f"- {label}: {escaped(text)}" for label, text in peak.facts),
        *(f"- {escaped(text)}" for text in (*peak.causes, *peak.doubts)),
        f"- {more}: `{command}`",
    ]


# --- the rest ---------------------------------------------------------------------------------------------------------


def _waterfall(screen: Screen) -> Iterator[list[str]]:
    whole = screen.waterfall
    if not whole.bars:
        return
    yield [f"### {capitalised(whole.title)}"]
    rows = [(part.name, part.amount, part.share, f"`{_bar(part)}`") for part in whole.bars]
    rows.append((f"**{whole.total_name}**", f"**{whole.total}**", "", ""))
    yield list(table_rows((_("account"), _("time"), _("share"), ""), rows, numbers=(1, 2)))
    if whole.of:
        yield [_("{rest}.").format(rest=capitalised(whole.of))]


def _bar(line: StackedPart) -> str:
    """Light before the account starts: leading blanks would not be shown."""
    start, end = round(line.start * _BAR_WIDTH), round(line.end * _BAR_WIDTH)
    start = min(start, _BAR_WIDTH - 1)
    return "░" * start + "█" * max(end - start, 1)


def _listed(title: str, items: Iterable[str], mark: str) -> Iterator[list[str]]:
    lines = [f"{mark} {item}" for item in items]
    if lines:
        yield [f"### {title}"]
        yield lines


def _shown(shown: ReportTable) -> Iterator[list[str]]:
    yield [f"### {shown.title.capitalize()}"]
    if shown.rows:
        yield markdown_table(shown)
    yield [f"- {escaped(note)}" for note in (shown.notes if shown.rows else [shown.empty])]
