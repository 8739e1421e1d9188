"""Documents inside a notebook: static markup with its styles inline, no script.

Letters keep the notebook's own colour, so it can be read on light and dark alike.
"""

from collections.abc import Iterable, Iterator
from html import escape

from redline.report.document import (
    Block,
    Document,
    Entries,
    Heading,
    Items,
    LabelledLines,
    Paragraph,
    ReportTable,
    StackedBars,
)
from redline.report.terminal import visible
from redline.report.text_parts import clipped

_COLOURS = {  # by their names in the style sheet of pages
    **dict.fromkeys(("compute", "memory", "kernel-loss", "unrated-compute"), "#4287f5"),
    **dict.fromkeys(("transfer", "peer-wait"), "#9c4dcc"),
    **dict.fromkeys(("input", "sync", "host", "queue", "other"), "#e8590c"),
    "math": "#2f9e44",
    "copy": "#868e96",
}
_LETTERS = 400  # of one piece of text
_CELL = "padding:1px 8px;border:0;text-align:{align};vertical-align:top;background:none;color:inherit"
_TABLE = "border-collapse:collapse;border:0;font-size:inherit;margin:4px 0;color:inherit"


def html_of(document: Document) -> str:
    blocks = (block if isinstance(block, tuple) else (block,) for block in document.blocks)
    parts = "".join(_markup(block) for group in blocks for block in group)
    return f"<div style='font-size:13px;line-height:1.5;max-width:64em;color:inherit'>{parts}</div>"


def _markup(block: Block) -> str:
    if isinstance(block, Heading | Paragraph):
        style = " style='font-weight:bold'" if isinstance(block, Heading) else ""
        return f"<div{style}>{_safe(block.text)}</div>"
    if isinstance(block, LabelledLines):
        rows = "".join(_row([(label, "left"), (text, "left")]) for label, text in block.lines)
        return f"{_titled(block.title)}<table style='{_TABLE}'>{rows}</table>"
    if isinstance(block, ReportTable):
        return _table(block)
    if isinstance(block, StackedBars):
        return _bars(block)
    if isinstance(block, Entries):
        return _entries(block)
    return _items(block) if isinstance(block, Items) else ""


def _safe(text: str) -> str:
    """Names come from strangers' files: text and nothing else."""
    return escape(visible(clipped(text, _LETTERS)), quote=True)


def _titled(title: str) -> str:
    return title and f"<div style='margin-top:8px'>{_safe(title)}</div>"


def _row(cells: Iterable[tuple[str, str]], more: str = "", style: str = "") -> str:
    tds = "".join(f"<td style='{_CELL.format(align=align)}'>{_safe(text)}</td>" for text, align in cells)
    return f"<tr style='background:none;{style}'>{tds}{more}</tr>"


def _table(shown: ReportTable) -> str:
    if not shown.rows:
        return ""
    rows = [_row(_aligned(shown.head), style="font-weight:bold"), *(_row(_aligned(row)) for row in shown.rows)]
    notes = "".join(f"<div style='opacity:.75'>{_safe(note)}</div>" for note in shown.notes)
    return f"{_titled(shown.title)}<table style='{_TABLE}'>{''.join(rows)}</table>{notes}"


def _aligned(cells: Iterable[str]) -> Iterator[tuple[str, str]]:
    return ((cell, "right" if at else "left") for at, cell in enumerate(cells))


def _bars(bars: StackedBars) -> str:
    if not bars.bars:
        return ""
    rows = []
    for stacked_part in bars.bars:
        start, width = 100 * stacked_part.start, max(100 * (stacked_part.end - stacked_part.start), 0.3)
        bar = f"margin-left:{start:.2f}%;width:{width:.2f}%;height:12px;background:{_COLOURS[stacked_part.colour]}"
        drawn = f"<td style='width:60%;border:0;background:none'><div style='{bar}'></div></td>"
        rows.append(
            _row([(stacked_part.name, "left"), (stacked_part.amount, "right"), (stacked_part.share, "right")], drawn)
        )
    total = [(bars.total_name, "left"), (bars.total, "right"), (bars.total_share, "right"), (bars.of, "left")]
    rows.append(_row(total, style="font-weight:bold"))
    return f"{_titled(bars.title)}<table style='{_TABLE};width:100%'>{''.join(rows)}</table>"


def _entries(block: Entries) -> str:
    if not block.entries:
        return ""
    items = "".join(
        f"<li><b>{_safe(entry.head)}</b>{''.join(f'<div>{_safe(line)}</div>' for line in entry.lines)}"
        f"<div style='opacity:.75'>{_safe(entry.fix)}</div></li>"
        for entry in block.entries
    )
    more = f"<div style='opacity:.75'>{_safe(block.more)}</div>" if block.more else ""
    return f"{_titled(block.title)}<ol style='margin:4px 0;padding-left:24px'>{items}</ol>{more}"


def _items(listed: Items) -> str:
    """Folded below their title, if they have one."""
    if not listed.items:
        return ""
    items = "".join(f"<li>{_safe(line)}</li>" for line in listed.items)
    lines = f"<ul style='margin:4px 0;padding-left:24px'>{items}</ul>"
    if not listed.title:
        return lines
    return f"<details style='margin-top:8px'><summary>{_safe(listed.title)}</summary>{lines}</details>"
