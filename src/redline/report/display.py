"""How a report is displayed: how many columns it has, and whether it has colours.

A terminal decides both. Pipes and files get plain text of 100 columns, whatever started Redline. Renderers ask
`columns` and mark text with `styled`; the command line turns the marks into colours.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

PLAIN_COLUMNS: Final = 100
_FEWEST, _MOST = 60, 160  # columns: tables need some, and lines of prose are hard to follow if they are longer


@dataclass(frozen=True, kw_only=True)
class Display:
    """What shows a report. The default is a pipe or a file."""

    columns: int = PLAIN_COLUMNS
    is_terminal: bool = False
    has_colour: bool = False


PLAIN: Final = Display()
_display: ContextVar[Display] = ContextVar("display", default=PLAIN)


def display_of(stream: object) -> Display:
    """Of a stream such as stdout, which may be closed or none at all."""
    if not _is_terminal(stream):
        return PLAIN
    has_colour = can_draw(stream) and not os.environ.get("NO_COLOR")
    return Display(columns=_columns_of(stream), is_terminal=True, has_colour=has_colour)


def can_draw(stream: object) -> bool:
    """Whether a stream is a terminal that moves its cursor and knows colours."""
    return _is_terminal(stream) and os.environ.get("TERM", "") not in ("", "dumb")


def _is_terminal(stream: object) -> bool:
    isatty = getattr(stream, "isatty", None)
    return isatty is not None and not getattr(stream, "closed", False) and bool(isatty())


def _columns_of(stream: object) -> int:
    """What the user says in COLUMNS comes first, as with other programs."""
    said = os.environ.get("COLUMNS", "")
    asked = int(said) if said.isascii() and said.isdigit() else 0
    if not asked:
        try:
            asked = os.get_terminal_size(stream.fileno()).columns  # type: ignore[attr-defined]
        except (OSError, ValueError, AttributeError):
            asked = 0
    return min(max(asked, _FEWEST), _MOST) if asked else PLAIN_COLUMNS


@contextmanager
def displaying(display: Display) -> Iterator[None]:
    """Every text that is made inside is for this display."""
    token = _display.set(display)
    try:
        yield
    finally:
        _display.reset(token)


def current() -> Display:
    return _display.get()


def columns() -> int:
    """How wide lines may be now."""
    return _display.get().columns


def most_lines(of_plain: int) -> int:
    """A limit of lines that holds for plain text, here: a narrow display says as much, on more of them."""
    return max(of_plain, of_plain * PLAIN_COLUMNS // columns())


def is_terminal() -> bool:
    return _display.get().is_terminal


# --- colours ----------------------------------------------------------------------------------------------------------


class Style(StrEnum):
    """What a piece of text means; the value is its look, in the words of rich."""

    HEADING = "bold"
    LABEL = "cyan"
    LIMIT = "bold yellow"  # what a job is limited by, or why no plan fits
    GOOD = "bold green"  # healthy, or the best layout
    GAIN = "green"
    WARNING = "yellow"
    ERROR = "bold red"
    SECONDARY = "dim"
    COMPUTE = "green3"
    LOST = "yellow3"
    TRAFFIC = "medium_purple"
    IDLE = "red3"


# Code points that are no letters in any text: Unicode keeps them free for the use inside programs.
_FIRST_MARK: Final = 0xFDD0
END_MARK: Final = "\ufdef"
STYLE_OF_MARK: Final = {chr(_FIRST_MARK + number): style for number, style in enumerate(Style)}
_MARK_OF_STYLE = {style: mark for mark, style in STYLE_OF_MARK.items()}
MARKS: Final = frozenset({END_MARK, *STYLE_OF_MARK})


def styled(text: str, style: Style) -> str:
    """The text between marks where the display has colours, which take no columns; else as it is."""
    return f"{_MARK_OF_STYLE[style]}{text}{END_MARK}" if text and _display.get().has_colour else text


def kept_marks() -> frozenset[str]:
    """Hidden letters that may stay in a text for this display."""
    return MARKS if _display.get().has_colour else frozenset()
