"""Text that others wrote, in a trace or as the name of a file: made harmless, cut short, and marked as data."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from redline.artifacts.masking import masked
from redline.report.terminal import is_hidden

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
