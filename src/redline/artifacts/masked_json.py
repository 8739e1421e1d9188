"""Mask secrets in JSON: in values that are decoded, and in text that passes by in pieces too large to decode."""

from __future__ import annotations

import json
import re
from functools import lru_cache

from redline.artifacts.masking import HINTS, MASK, is_secret, masked, masked_text, may_name_secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HINTS = tuple(hint.encode() for hint in HINTS)
_DIGITS = b"0123456789"
_LOWER = bytes(range(256)).lower()
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"(?P<names>\s*:)?', re.DOTALL)
_WORDS_OUTSIDE = re.compile(r"(?!true|false|null|nan|infinity|e[+-]?\d)[A-Za-z_]{2,}", re.IGNORECASE)
_LONGEST_LINE_BYTES = 1 << 24


def masked_value(value: Any, name: str = "") -> Any:
    """A decoded value; `name` is what it is called. A list of texts is taken for a command line."""
    if isinstance(value, str):
        return MASK if is_secret(name, value) else masked(value)
    if isinstance(value, dict):
        return {masked(str(key)): masked_value(member, str(key)) for key, member in value.items()}
    if isinstance(value, list | tuple):
        if value and all(isinstance(item, str) for item in value):
            return type(value)(masked_text(value))
        return type(value)(masked_value(item, name) for item in value)
    return value


class JsonMasker:
    """Masks JSON that is handed over in pieces, one line after the other. What holds no secret stays as it was."""

    def __init__(self) -> None:
        self._rest = b""

    def add(self, piece: bytes) -> bytes:
        """All whole lines so far; the last one waits for its end."""
        text = self._rest + piece
        end = text.rfind(b"\n") + 1
        if not end and len(text) > _LONGEST_LINE_BYTES:
            end = len(text)
        self._rest = text[end:]
        return _masked_lines(text[:end])

    def end(self) -> bytes:
        rest, self._rest = self._rest, b""
        return _masked_lines(rest)


def _masked_lines(text: bytes) -> bytes:
    hints = _hints_in(text)
    lower = text.lower() if hints else b""
    suspects = sorted({start for hint in hints for start in _suspect_lines(text, lower, hint)})
    parts: list[bytes] = []
    done = 0
    for start in suspects:
        end = text.find(b"\n", start)
        end = len(text) if end < 0 else end
        parts += (text[done:start], _masked_line(text[start:end]))
        done = end
    return b"".join((*parts, text[done:])) if parts else text


def _hints_in(text: bytes) -> list[bytes]:
    """Those that may be there. Without digits most lines of a trace are alike, so only a few have to be searched."""
    alike = b"\n".join(set(text.translate(_LOWER, _DIGITS).split(b"\n")))
    return [hint for hint in _HINTS if hint.translate(None, _DIGITS) in alike]


def _suspect_lines(text: bytes, lower: bytes, hint: bytes) -> set[int]:
    """Where lines begin in which a string that holds the hint may be a secret, or the name of one."""
    starts = set()
    at = lower.find(hint)
    while at >= 0:
        begin = text.rfind(b'"', 0, at) + 1
        end = text.find(b'"', at)
        end = len(text) if end < 0 else end
        if text[begin - 2 : begin - 1] == b"\\" or _is_suspect(text[begin:end]):
            starts.add(lower.rfind(b"\n", 0, at) + 1)
        at = lower.find(hint, max(end, at + 1))
    return starts


@lru_cache(maxsize=1 << 14)
def _is_suspect(content: bytes) -> bool:
    """Of what stands between two quotes; a quote inside of a string is written with a backslash before it."""
    text = content.decode("utf-8", "surrogateescape")
    return text.endswith("\\") or "\n" in text or may_name_secret(text) or masked(text) != text


def _masked_line(line: bytes) -> bytes:
    text = line.decode("utf-8", "surrogateescape")
    if _WORDS_OUTSIDE.search(_STRING.sub("", text)):  # quotes in names that the profiler did not escape
        return masked(text).encode("utf-8", "surrogateescape")
    name = ""
    parts: list[str] = []
    done = 0
    for match in _STRING.finditer(text):
        if match["names"]:
            parts += (text[done : match.start()], _masked_string("", match[0][: -len(match["names"])]), match["names"])
            name = match[0][1:].partition('"')[0]
        else:
            parts += (text[done : match.start()], _masked_string(name, match[0]))
            name = ""
        done = match.end()
    return "".join((*parts, text[done:])).encode("utf-8", "surrogateescape")


@lru_cache(maxsize=1 << 14)
def _masked_string(name: str, quoted: str) -> str:
    try:
        value = json.loads(quoted, strict=False)
    except ValueError:  # not JSON, but nearly; a reader may make something of it
        return f'"{masked(quoted[1:-1])}"'
    clean = masked_value(value, name)
    return quoted if clean == value else json.dumps(clean)
