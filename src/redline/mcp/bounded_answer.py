"""An answer of at most so many bytes of JSON: rows that do not fit are counted, with what to ask for the others."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from redline.artifacts.masking import masked
from redline.report.terminal import is_hidden

MOST_BYTES = 8192  # of the text of one answer, as UTF-8
_MOST_LETTERS = 6_000  # of one text of ours, such as a section of a page
_DIGITS = 6  # significant, of a number that was computed


@dataclass(frozen=True, kw_only=True)
class RowPage:
    """Rows of an answer from `offset` on; `ask` has the arguments that show more, None where only the command does."""

    rows: Sequence[Mapping[str, Any]]
    offset: int = 0
    ask: Mapping[str, Any] | None = None
    most: int = 1_000  # in this answer
    least: int = 0  # that are kept as long as any other row can go


@dataclass(frozen=True, kw_only=True)
class BoundedAnswer:
    """What a tool has to say: facts that always fit, and lists of rows, the most important list first."""

    facts: Mapping[str, Any]
    pages: Mapping[str, RowPage] = field(default_factory=dict)


def answer_text(answer: BoundedAnswer) -> str:
    """Compact JSON within the bound. Of the lists, the one that takes most room loses its last row until all fit."""
    shown = {name: [plain(row) for row in _of_page(page)] for name, page in answer.pages.items()}
    facts = plain(answer.facts)
    sizes = {name: [len(json.dumps(row, ensure_ascii=False).encode()) for row in rows] for name, rows in shown.items()}
    text = _text(facts, shown, answer.pages)
    while len(text.encode()) > MOST_BYTES:
        name = _to_shorten(sizes, answer.pages)
        if name is None:
            raise ValueError(f"the facts of an answer alone are {len(text):,} letters")
        shown[name].pop()
        sizes[name].pop()
        text = _text(facts, shown, answer.pages)
    return text


def _of_page(page: RowPage) -> Sequence[Mapping[str, Any]]:
    return page.rows[page.offset : page.offset + page.most]


def _to_shorten(sizes: Mapping[str, Sequence[int]], pages: Mapping[str, RowPage]) -> str | None:
    """The list with most bytes; one that is down to the rows that it should keep only where no other has any."""
    spare = [name for name, rows in sizes.items() if len(rows) > pages[name].least]
    names = spare or [name for name, rows in sizes.items() if rows]
    return max(names, key=lambda name: sum(sizes[name]), default=None)


def _text(facts: Mapping[str, Any], shown: Mapping[str, Sequence[Any]], pages: Mapping[str, RowPage]) -> str:
    left_out = {
        name: {
            "shown": len(shown[name]),
            "offset": page.offset,
            "of": len(page.rows),
            "ask": _ask(page, len(shown[name])),
        }
        for name, page in pages.items()
        if len(shown[name]) < len(page.rows)
    }
    record = {**facts, **shown, **({"left_out": plain(left_out)} if left_out else {})}
    return json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _ask(page: RowPage, count: int) -> dict[str, Any] | None:
    """The arguments for the rows that follow; None behind the last."""
    following = page.offset + count
    return None if page.ask is None or following >= len(page.rows) else {**page.ask, "offset": following}


def plain(value: Any) -> Any:
    """As JSON has it: numbers in so many digits, nothing hidden in any text, and no text without an end."""
    if isinstance(value, str):
        return shortened("\n".join(map(escaped, value.split("\n"))), _MOST_LETTERS)
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if value - value == 0 else None  # neither infinite nor no number
    if isinstance(value, Mapping):
        return {escaped(str(key)): plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(member) for member in value]
    return value


MARK = "recorded"
MOST_LETTERS = 120
_LOOKED_AT = 4_000  # letters: a name may be a megabyte, and a secret behind so many is cut off anyway


def recorded(text: object, most: int = MOST_LETTERS) -> dict[str, str]:
    """The text as an object of its own: what stands in it is data, never a sentence of ours nor an instruction."""
    whole = str(text)
    return {MARK: _harmless(whole[:_LOOKED_AT], most, len(whole))}


@lru_cache(maxsize=1024)  # rows of a table repeat names
def _harmless(text: str, most: int, letters: int) -> str:
    return shortened(escaped(masked(text)), most, letters)


def recorded_fields(row: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """These fields of a row, marked; empty ones say nothing and are left out."""
    return {name: recorded(row[name]) for name in names if row[name] not in {"", None}}


def shortened(text: str, most: int, letters: int = 0) -> str:
    """No longer than so many letters, with how many there were."""
    whole = max(letters, len(text))
    return text if len(text) <= most and whole <= _LOOKED_AT else f"{text[:most]}... ({whole:,} letters)"


def escaped(text: str) -> str:
    """Control characters, direction marks and line breaks as `\\u001b`: harmless wherever shown."""
    if text.isprintable():
        return text
    return "".join(_escape(letter) if is_hidden(letter) else letter for letter in text)


def _escape(letter: str) -> str:
    number = ord(letter)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
