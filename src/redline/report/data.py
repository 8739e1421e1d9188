"""Results for programs: JSON and CSV whose numbers are numbers, and whose names do nothing to who opens them."""

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import PurePath
from typing import Any

import msgspec

from redline.artifacts import Envelope
from redline.report.terminal import is_hidden

_NOT_ASCII = re.compile(r"[^ -~\n]")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # the last four are wide letters


def json_text(record: Mapping[str, object]) -> str:
    """Hidden letters as escapes, all others as they are. ValueError where a number is infinite or none."""
    text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return text if text.isascii() and "\x7f" not in text else _NOT_ASCII.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    """All that is not ASCII stands inside of strings, where an escape means the same."""
    return json.dumps(match[0])[1:-1] if is_hidden(match[0]) else match[0]


def enveloped(
    kind: str, schema_version: int, made_by: str, record: Mapping[str, Any], *, synthetic: bool = False
) -> dict[str, Any]:
    """A record after what says of it what it is."""
    envelope = Envelope(kind=kind, schema_version=schema_version, made_by=made_by, synthetic=synthetic)
    return {**envelope.to_dict(), **record}


def plain(value: Any) -> Any:
    """A result as JSON has it: records as their fields, enumerations by value."""
    return msgspec.to_builtins(value, enc_hook=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Fraction):
        return float(value)
    if isinstance(value, PurePath):
        return str(value)
    return value.tolist()  # of NumPy


def picked(value: object, names: str) -> dict[str, Any]:
    """Some of what a record has, by names with blanks between them."""
    return {name: plain(getattr(value, name)) for name in names.split()}


def code(words: str) -> str:
    """An account or another word of ours as a name that programs like: kernel_loss, logits_and_loss."""
    return re.sub(r"[',]", "", words.lower()).replace(" ", "_")


def csv_text(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Numbers as they are, and texts that no spreadsheet takes for a formula."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in (head, *rows):
        writer.writerow([harmless(cell) if isinstance(cell, str) else cell for cell in row])
    return text.getvalue()


def harmless(text: str) -> str:
    """Without letters that are not seen, and with ' before what would begin a formula."""
    shown = "".join(letter for letter in text if not is_hidden(letter))
    return f"'{shown}" if text.startswith(_FORMULA) or shown.startswith(_FORMULA) else shown
