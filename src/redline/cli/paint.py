"""Marked text as a terminal shows it: rich writes the colours."""

from __future__ import annotations

import io
import re

from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text

from redline.report.display import END_MARK, MARKS, STYLE_OF_MARK, Style, current
from redline.report.terminal import visible_lines

_LINK_TO_PAGE = re.compile(r"\[([^]]+)\]\([^)]+\.md\)")  # leads nowhere on a terminal
_PARTS = re.compile(f"([{''.join(sorted(MARKS))}])")


def painted(text: str) -> str:
    """With the control sequences of the colours that this terminal has; nothing else in it reaches the terminal."""
    out = Text()
    styles: list[Style] = []
    for part in _PARTS.split(text):
        if part in STYLE_OF_MARK:
            styles.append(STYLE_OF_MARK[part])
        elif part == END_MARK:
            del styles[-1:]
        else:
            out.append(visible_lines(part), style=" ".join(styles))
    return _written(out)


def _written(text: Text) -> str:
    """As it stands: lines were broken before."""
    console = Console(file=io.StringIO(), force_terminal=True, highlight=False, legacy_windows=False)
    with console.capture() as capture:
        console.print(text, end="", soft_wrap=True)
    return capture.get()


def painted_page(markdown: str) -> str:
    """A page of ours for this display: headings, lists and code as such, addresses in full."""
    display = current()
    console = Console(
        file=io.StringIO(),
        force_terminal=display.has_colour,
        color_system="auto" if display.has_colour else None,
        width=display.columns,
        legacy_windows=False,
    )
    with console.capture() as capture:
        console.print(Markdown(_LINK_TO_PAGE.sub(r"\1", markdown), code_theme="ansi_dark", hyperlinks=False))
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())
