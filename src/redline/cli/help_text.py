"""The parts of a help, as wide as the terminal: usage, prose, sections of names with their meanings, an example."""

from __future__ import annotations

import sys

from redline.cli.output import show

TYPE_CHECKING = False  # typing itself would be a tenth of the cost of --help
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_PLAIN_COLUMNS = 100
_WIDEST_NAME = 26  # a longer name has its meaning on the line below


def show_help(lines: Iterable[str]) -> None:
    show("\n".join(lines) + "\n")


def example(command: str) -> Iterator[str]:
    yield from ("", "For example:", *_wrapped("  redline ", command.removeprefix("redline ")))


def usage(*commands: str) -> Iterator[str]:
    """Each without the word `redline`."""
    for number, command in enumerate(commands):
        yield from _wrapped("       redline " if number else "usage: redline ", command)


def prose(text: str) -> list[str]:
    return _wrapped("", " ".join(text.split()))


def section(heading: str, rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    """A heading, and each name with its meaning beside it."""
    if not rows:
        return
    yield ""
    if heading:
        yield f"{heading}:"
    width = min(_WIDEST_NAME, width)
    for name, meaning in rows:
        if len(name) > width:
            yield f"  {name}"
        yield from _wrapped(f"  {name if len(name) <= width else '':<{width}}  ", meaning)


def _columns() -> int:
    if sys.stdout is None or not sys.stdout.isatty():
        return _PLAIN_COLUMNS
    from redline.report.display import display_of

    return display_of(sys.stdout).columns


def _wrapped(start: str, text: str) -> list[str]:
    """Broken where words end, and continued under the text."""
    width = _columns() - len(start)
    if len(text) <= width:
        return [start + text]
    import textwrap

    lines = textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False)
    return [start + lines[0], *(" " * len(start) + more for more in lines[1:])]
