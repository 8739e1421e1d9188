"""Documents as Markdown, as GitHub and GitLab show it: names from strangers' traces stay text."""

import html
import re
from collections.abc import Iterable, Iterator, Sequence

from redline.report.document import (
    Block,
    Commands,
    Document,
    Entries,
    Folded,
    Heading,
    Items,
    LabelledLines,
    Paragraph,
    ReportTable,
    StackedBars,
)
from redline.report.language import _, sentences
from redline.report.terminal import as_text

_BAR_WIDTH = 40
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$@&])")


def markdown_of(document: Document) -> str:
    groups = (block if isinstance(block, tuple) else (block,) for block in document.blocks)
    return as_text(lines for group in groups for block in group for lines in _blocks(block))


def _blocks(block: Block) -> Iterator[list[str]]:
    if isinstance(block, Heading):
        yield [f"## {escaped(block.text)}"]
    elif isinstance(block, LabelledLines):
        yield [f"- {label}: {escaped(text)}" if label else f"- {escaped(text)}" for label, text in block.lines if text]
    elif isinstance(block, Items):
        if block.items:
            yield [f"### {escaped(capitalised(block.title))}"] if block.title else []
            yield [escaped(block.about)] if block.about else []
        marks = (f"{number}." if block.is_numbered else "-" for number in range(1, len(block.items) + 1))
        yield [f"{mark} {escaped(item)}" for mark, item in zip(marks, block.items, strict=True)]
    elif isinstance(block, Entries):
        yield from _entries(block)
    elif isinstance(block, StackedBars):
        yield from _bars(block)
    elif isinstance(block, ReportTable):
        if block.title and (block.rows or block.empty):
            yield [f"### {escaped(capitalised(block.title))}"]
        yield markdown_table(block) if block.rows else []
        yield [f"- {escaped(note)}" for note in (block.notes if block.rows else [block.empty] if block.empty else [])]
    elif isinstance(block, Paragraph):
        yield [escaped(block.text)]
    elif isinstance(block, Commands):
        yield [f"- {escaped(purpose)}: {code(command)}" for purpose, command in block.lines]
    elif isinstance(block, Folded):
        yield from _folded(block)


def _entries(block: Entries) -> Iterator[list[str]]:
    """With what is folded below each; the prose in it is ours and Markdown already."""
    yield [f"### {escaped(capitalised(block.title))}"] if block.title and block.entries else []
    for number, entry in enumerate(block.entries, start=1):
        fix = "" if entry.details else entry.fix
        yield [f"{number}. {sentences([f'**{escaped(entry.head)}**', *map(escaped, entry.lines), escaped(fix)])}"]
        if entry.details:
            folded = "\n\n".join("\n".join(lines) for lines in _folded(entry.details))
            yield [f"   {line}".rstrip() for line in folded.splitlines()]
    yield [escaped(block.more)] if block.more else []


def _bars(whole: StackedBars) -> Iterator[list[str]]:
    """Light before a part begins: leading blanks would not be shown."""
    if not whole.bars:
        return
    yield [f"### {escaped(capitalised(whole.title))}"]
    rows = []
    for part in whole.bars:
        start, end = round(part.start * _BAR_WIDTH), round(part.end * _BAR_WIDTH)
        start = min(start, _BAR_WIDTH - 1)
        bar = f"`{'░' * start}{'█' * max(end - start, 1)}`"
        rows.append((escaped(part.name), part.amount, part.share, bar))
    rows.append((f"**{whole.total_name}**", f"**{whole.total}**", whole.total_share, ""))
    yield list(table_rows(("", "", _("share"), ""), rows, numbers=(1, 2)))
    yield [escaped(capitalised(whole.of))] if whole.of else []


def _folded(block: Folded) -> Iterator[list[str]]:
    """In a line of HTML, Markdown escapes nothing."""
    yield [f"<details><summary>{html.escape(block.title)}</summary>"]
    if isinstance(block.content, str):
        yield block.content.split("\n")
        yield ["</details>"]
    else:
        yield markdown_table(block.content)
        yield [*map(escaped, block.content.notes), "</details>"]


def code(text: str) -> str:
    return f"`{text.replace('`', chr(39))}`"


def capitalised(title: str) -> str:
    return title[:1].upper() + title[1:]


def escaped(text: str) -> str:
    """Text that Markdown shows as it is; names come from strangers' traces."""
    return _SPECIAL.sub(r"\\\1", text)


def markdown_table(shown: ReportTable) -> list[str]:
    """Its lines, with columns of amounts aligned to the right."""
    cells = [tuple(escaped(cell.strip()) for cell in row) for row in shown.rows]
    numbers = [
        place
        for place in range(len(shown.head))
        if all(row[place].lstrip("+-")[:1].isdigit() or row[place] == "-" for row in shown.rows)
    ]
    return list(table_rows(shown.head, cells, numbers))


def table_rows(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|" + "|".join("---:" if place in numbers else "---" for place in range(len(head))) + "|"
    for row in rows:
        yield f"| {' | '.join(row)} |"
