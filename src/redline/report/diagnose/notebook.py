"""A diagnosis inside a notebook: static markup with its styles inline, no script; and the one line of its repr.

Colours are of middle brightness and letters keep the notebook's own colour, so it can be read on light and dark alike.
"""

from collections.abc import Iterable, Iterator
from html import escape

from redline.ledger.accounts import COMMUNICATION, COMPUTE, IDLE, Account
from redline.report.diagnose.diagnosed_job import DiagnosedJob
from redline.report.diagnose.finding_messages import findings_title
from redline.report.diagnose.findings_screen import Card
from redline.report.diagnose.replay_messages import replay_tables
from redline.report.diagnose.screen import Screen, screen_of
from redline.report.document import ReportTable, StackedPart
from redline.report.language import _
from redline.report.terminal import visible
from redline.report.text_parts import clipped, percent, plural
from redline.units import format_ns

MOST_FINDINGS = 3
_LETTERS = 400  # of one piece of text
_COLOURS = {
    **dict.fromkeys(COMPUTE, "#4287f5"),
    **dict.fromkeys(COMMUNICATION, "#9c4dcc"),
    **dict.fromkeys(IDLE, "#e8590c"),
    Account.MATH: "#2f9e44",
    Account.COPY: "#868e96",
}
_CELL = "padding:1px 8px;border:0;text-align:{align};white-space:nowrap;background:none;color:inherit"


def render(result: DiagnosedJob) -> str:
    screen = screen_of(result)
    parts = [
        f"<div style='font-weight:bold'>{_safe(screen.verdict)}</div>",
        *(f"<div>{_safe(text)}</div>" for text in (screen.second, screen.growth) if text),
        f"<div style='opacity:.75'>{_safe(screen.headline)}</div>",
        *_waterfall(screen),
        *_findings(screen.cards, replayed=screen.replayed),
        *(part for shown in replay_tables(result.replayed) for part in _table(shown)),
        *_memory(screen),
        *_notes(screen.unseen),
    ]
    return f"<div style='font-size:13px;line-height:1.5;max-width:64em;color:inherit'>{''.join(parts)}</div>"


def _safe(text: str) -> str:
    """Names come from strangers' traces: text and nothing else."""
    return escape(visible(clipped(text, _LETTERS)), quote=True)


def _waterfall(screen: Screen) -> Iterator[str]:
    whole = screen.waterfall
    if not whole.bars:
        return
    yield f"<div style='margin-top:8px'>{_safe(whole.title)}</div>"
    yield "<table style='border-collapse:collapse;border:0;width:100%;font-size:inherit;margin:4px 0;color:inherit'>"
    for part in whole.bars:
        cells = _cells([(part.name, "left"), (part.amount, "right"), (part.share, "right")])
        bar = f"<td style='width:100%;border:0;background:none'>{_bar(part, _COLOURS[Account(part.code)])}</td>"
        yield f"<tr style='background:none'>{cells}{bar}</tr>"
    total = _cells([(whole.total_name, "left"), (whole.total, "right")])
    yield f"<tr style='background:none;font-weight:bold'>{total}<td></td><td></td></tr></table>"


def _cells(cells: Iterable[tuple[str, str]]) -> str:
    return "".join(f"<td style='{_CELL.format(align=align)}'>{_safe(text)}</td>" for text, align in cells)


def _bar(line: StackedPart, colour: str) -> str:
    start, width = 100 * line.start, max(100 * (line.end - line.start), 0.3)
    return f"<div style='margin-left:{start:.2f}%;width:{width:.2f}%;height:12px;background:{colour}'></div>"


def _findings(cards: tuple[Card, ...], *, replayed: bool) -> Iterator[str]:
    if not cards:
        return
    title = findings_title(replayed=replayed)
    yield f"<div style='margin-top:8px'>{_safe(title)}</div>"
    yield "<ol style='margin:4px 0;padding-left:24px'>"
    for card in cards[:MOST_FINDINGS]:
        evidence = f"<div>{_safe(card.evidence[0])}</div>" if card.evidence else ""
        first = _("Fix: {fix}").format(fix=card.fix)
        fix = f"<div style='opacity:.75'>{_safe(first)}</div>"
        yield f"<li><b>{_safe(card.code)}</b> {_safe(card.title)}: {_safe(card.gain)}{evidence}{fix}</li>"
    yield "</ol>"
    if len(cards) > MOST_FINDINGS:
        more = _("and {count} more: frame('findings') has all").format(count=len(cards) - MOST_FINDINGS)
        yield f"<div style='opacity:.75'>{_safe(more)}</div>"


def _table(shown: ReportTable) -> Iterator[str]:
    yield f"<div style='margin-top:8px'>{_safe(shown.title)}</div>"
    if shown.rows:
        yield "<table style='border-collapse:collapse;border:0;font-size:inherit;margin:4px 0;color:inherit'>"
        for row in (shown.head, *shown.rows):
            yield f"<tr style='background:none'>{_cells((cell, 'left') for cell in row)}</tr>"
        yield "</table>"
    yield from (f"<div style='opacity:.75'>{_safe(note)}</div>" for note in shown.notes)


def _memory(screen: Screen) -> Iterator[str]:
    peak = screen.memory
    if peak is None:
        return
    lines = [
        *(f"{line.name} {line.size}, {line.share}" for line in peak.accounts),
        *(f"{label}: {text}" for label, text in peak.facts),
        *peak.causes,
        *peak.doubts,
    ]
    items = "".join(f"<li>{_safe(line)}</li>" for line in lines)
    yield f"<div style='margin-top:8px'>{_safe(peak.title)}</div>"
    yield f"<ul style='margin:4px 0;padding-left:24px'>{items}</ul>"


def _notes(unseen: tuple[str, ...]) -> Iterator[str]:
    if unseen:
        title, items = _("not seen"), "".join(f"<li>{_safe(line)}</li>" for line in unseen)
        yield (
            f"<details style='margin-top:8px'><summary>{_safe(title)}</summary>"
            f"<ul style='margin:4px 0;padding-left:24px'>{items}</ul></details>"
        )


def line_of(result: DiagnosedJob) -> str:
    """ "<diagnosis of 2 ranks: step 8.605 ms, idle 41.7 %; 3 findings, first RL-D01 with at most 26.7 %>"."""
    listed = result.findings.findings
    first = f", first {listed[0].code} with at most {percent(listed[0].share)}" if listed else ""
    step = format_ns(round(result.outline.steps.median_ns))
    return (
        f"<diagnosis of {plural(len(result.diagnosis.ranks), 'rank')}: step {step}, "
        f"idle {percent(result.findings.verdict.idle_share)}; {plural(len(listed), 'finding')}{first}>"
    )
