"""Text on a terminal: how many columns it takes, how it is padded, where its lines break, and what may not stand in it.

Chinese letters take two columns each, and lines may break between them.
"""

import re
import unicodedata
from collections.abc import Iterable

from redline.report.display import MARKS, Style, columns, is_terminal, kept_marks, styled

_CLOSING = "，。；：、）》”！？"  # never first on a line
_OPENING = "（《“"  # never last on one
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=%|x\b|[num]?s\b|[kMGTPE]?(?:B|FLOP)\b)")
_GLUE = "\u00a0"
_PIECE = re.compile(r"[ \n]+|[^ \n]+")
_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"})  # control, direction marks, unassigned, line breaks


def is_hidden(letter: str) -> bool:
    """Whether it is not seen itself, but may move the cursor, change the direction of others or break a line."""
    return unicodedata.category(letter) in _HIDDEN


def visible(line: str) -> str:
    """One line that does nothing to a terminal but stand there: ? for every hidden letter, line breaks too."""
    if line.isprintable():
        return line
    kept = kept_marks()
    return "".join("?" if is_hidden(letter) and letter not in kept else letter for letter in line)


def visible_lines(text: str) -> str:
    """Text whose line breaks are meant, and where nothing else is hidden."""
    return "\n".join(map(visible, text.split("\n")))


def as_text(blocks: Iterable[Iterable[str]]) -> str:
    """Blocks of lines with a blank line between them: how every report for a terminal is written.

    Names in them come from strangers' files. Here, and not where each name is put in, they are made harmless.
    """
    filled = [_headed(block) for block in map(tuple, blocks) if block]
    return "\n\n".join("\n".join(map(visible, block)) for block in filled) + "\n"


def _headed(block: tuple[str, ...]) -> tuple[str, ...]:
    """The first line of a block says what it is about, unless it has a style of its own."""
    first, *rest = block
    return block if MARKS.intersection(first) else (styled(first, Style.HEADING), *rest)


def width_of(text: str) -> int:
    """Columns of a terminal."""
    if text.isascii():
        return len(text)
    return sum(map(_letter_width, text))


def _letter_width(letter: str) -> int:
    if letter in MARKS:
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def headline(text: str) -> list[str]:
    return wrapped(styled(text, Style.HEADING), columns(), rest="  ")


def labelled(label: str, text: str, width: int = 0, indent: str = "") -> list[str]:
    """A fact: its label in so many columns, and beside it the text."""
    return wrapped(text, columns(), styled(f"{indent}{left(label, width)}", Style.LABEL))


def fitted(text: str, first: str = "", rest: str | None = None) -> list[str]:
    """Lines as wide as the terminal; without one, a single line of any width, which is easier to search."""
    return wrapped(text, columns(), first, rest) if is_terminal() else [f"{first}{text}"]


def left(text: str, width: int) -> str:
    """With blanks behind it, up to so many columns."""
    return text + " " * (width - width_of(text))


def right(text: str, width: int) -> str:
    return " " * (width - width_of(text)) + text


def glued(text: str) -> str:
    """With blanks that do not break between numbers and their units."""
    return _BEFORE_UNIT.sub(_GLUE, text)


def wrapped(text: str, width: int, first: str = "", rest: str | None = None) -> list[str]:
    """Lines no wider than `width`, which never part a number from its unit; `first` and `rest` are before them."""
    indent = " " * width_of(first) if rest is None else rest
    lines, line, empty = [], first, True
    for piece in _pieces(glued(text)):
        if not empty and width_of(line + piece.rstrip()) > width:
            lines.append(line.rstrip())
            line, empty = indent, True
        word = piece.lstrip() if empty else piece
        while empty and width_of(line + word.rstrip()) > width:  # longer than any line
            cut = _letters_within(word, width - width_of(line))
            lines.append(line + word[:cut])
            line, word = indent, word[cut:]
        line += word
        empty = empty and not word
    return [done.replace(_GLUE, " ") for done in [*lines, line.rstrip()]]


def _pieces(text: str) -> list[str]:
    """Between which a line may break: words with the blank before them, and single Chinese letters."""
    pieces: list[str] = []
    blank = ""
    for run in _PIECE.findall(text):
        if run.isspace():
            blank = " "
            continue
        pieces += _broken(blank + run)
        blank = ""
    return pieces


def _broken(run: str) -> list[str]:
    if run.isascii():
        return [run]
    pieces = [""]
    before = ""
    for letter in run:
        if letter in MARKS:
            pieces[-1] += letter
            continue
        parts = _is_wide(letter) or _is_wide(before)
        if parts and before.strip() and letter not in _CLOSING and before not in _OPENING:
            pieces.append("")
        pieces[-1] += letter
        before = letter
    return pieces


def _is_wide(letter: str) -> bool:
    return bool(letter) and unicodedata.east_asian_width(letter) in "WF"


def _letters_within(word: str, columns: int) -> int:
    count = 1
    while count < len(word) and width_of(word[: count + 1]) <= columns:
        count += 1
    return count
