"""Drawn by rich on a terminal: marked text in its colours, pages, and the bar of a long piece of work."""

from __future__ import annotations

import io
import os
import re
import sys
import time
from collections.abc import Mapping

from rich.console import Console
from rich.markdown import Markdown
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

from redline.progress import ProgressStage
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


_COUNTED = (ProgressStage.READ, ProgressStage.WRITE)  # in files or ranks; the others in shares


class TimeLeft(ProgressColumn):
    """Minutes and seconds until the end that was expected when the work last came further."""

    def __init__(self, sentence: str) -> None:
        super().__init__()
        self.ends_s: float | None = None
        self._sentence = sentence

    def render(self, task: Task) -> Text:
        left_s = -1.0 if self.ends_s is None else self.ends_s - time.monotonic()
        if left_s < 0:
            return Text("")
        minutes, seconds = divmod(round(left_s), 60)
        return Text(self._sentence.format(time=f"{minutes}:{seconds:02d}"), style="cyan")


class ProgressBar:
    """One line on stderr, which is wiped in the end."""

    def __init__(self, labels: Mapping[ProgressStage, str], left: str, *, in_background: bool) -> None:
        self._labels = labels
        self._left = TimeLeft(left)
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[share]}"),
            self._left,
            console=Console(file=sys.stderr, no_color=bool(os.environ.get("NO_COLOR")), legacy_windows=False),
            transient=True,
            auto_refresh=in_background,
            redirect_stdout=False,
        )
        self._stage: ProgressStage | None = None
        self._done = 0.0
        self._task = self._bar.add_task("", share="")

    def show(self, stage: ProgressStage, done: float, total: float, began_s: float) -> None:
        """`began_s` is when the stage began, by the monotonic clock."""
        if stage is not self._stage:
            self._stage, self._left.ends_s, self._done = stage, None, 0.0
            self._bar.reset(self._task)
        if total and done > self._done:
            self._done, now_s = done, time.monotonic()
            self._left.ends_s = now_s + (now_s - began_s) * (total - done) / done
        label, share = self._labels[stage], _share(stage, done, total)
        self._bar.update(self._task, description=label, total=total or None, completed=done, share=share)
        self._bar.start()
        self._bar.refresh()

    def stop(self) -> None:
        self._bar.stop()


def _share(stage: ProgressStage, done: float, total: float) -> str:
    if not total:
        return ""
    return f"{done:,.0f} / {total:,.0f}" if stage in _COUNTED else f"{100 * done / total:.0f} %"
