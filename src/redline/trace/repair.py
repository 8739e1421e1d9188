"""Repairs of event text: what writers really get wrong in JSON, put right without touching anything else."""

import re
from collections.abc import Callable, Iterator

from redline.timeline.problems import Reason
from redline.trace.schema import FIRST_KEYS

_CONTROL = re.compile(rb"[\x00-\x1f]")
_RARE_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_CONTROLS_TO_SPACES = bytes.maketrans(bytes(range(32)), b" " * 32)
_ESCAPES = re.compile(rb'(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))++|\\')  # as many as there are, or a lone backslash
_BARE_WORD = re.compile(
    rb'("(?:[^"\\]++|\\.)*+")|(?<=[:,\[])(\s*)(?:-?(?:inf(?:inity)?|nan)|N/A)(?=\s*[,}\]])', re.IGNORECASE | re.DOTALL
)
_UNOPENED_KEY = re.compile(rb'(?<=[{,])(\s*)([A-Za-z_][\w ]*)"(\s*:)')
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_TEXT_FIELD = re.compile(rb'"[^"\\]{1,40}"\s*:\s*"')
_END_OF_VALUE = re.compile(rb'"(?=\s*(?:,\s*"[^"\\]{1,40}"\s*:|[}\]]))')
_END_OF_NAME = re.compile(rb'"(?=\s*(?:,\s*"(?:' + b"|".join(FIRST_KEYS) + rb')"\s*:|\}[\s,}]*\Z))')
_SWALLOWED_QUOTE = re.compile(rb'(?<!\\)((?:\\\\)*)\\"(?=\s*,\s*"[^"\\]{1,40}"\s*:)')  # a path that ends in a backslash
_BARE_QUOTE = re.compile(rb'(?<!\\)"')

Mend = tuple[Callable[[bytes], bytes], Callable[[bytes], bool], Reason]


def mends_of(text: bytes) -> Iterator[tuple[Mend, ...]]:
    """Mends that are safe on any stretch of text, damaged or not: first those that this text shows a need of, then all.

    Whether a control character stands inside a string is costly to tell, so blanking them is the last resort.
    """
    needed = tuple(mend for mend in _SAFE_MENDS[:-1] if mend[0](text) != text)
    if needed:
        yield needed
    yield (*needed, _SAFE_MENDS[-1])


def repairs(text: bytes) -> Iterator[tuple[bytes, tuple[Reason, ...]]]:
    """Ways in which one damaged event may have been meant, the likeliest first, each with what was put right."""
    reasons: tuple[Reason, ...] = ()
    for mend, touches, reason in _SAFE_MENDS[:-1]:
        if touches(text):
            text, reasons = mend(text), (*reasons, reason)
    for pattern, meant, reason in _FIELD_MENDS:
        mended = pattern.sub(meant, text)
        if mended != text:
            text, reasons = mended, (*reasons, reason)
    blank, _, control = _SAFE_MENDS[-1]
    for whole, so_far in ((text, reasons), (blank(text), (*reasons, control))):
        yield whole, so_far
        yield _escape_quotes(whole, _END_OF_NAME), (*so_far, Reason.UNESCAPED_QUOTE)
        yield _escape_quotes(whole, _END_OF_VALUE), (*so_far, Reason.UNESCAPED_QUOTE)
        yield _SWALLOWED_QUOTE.sub(rb'\1\\\\"', whole), (*so_far, Reason.LONE_BACKSLASH)


def _escape_quotes(text: bytes, end_of_value: re.Pattern[bytes]) -> bytes:
    """Quotes inside the values of strings escaped, where a value ends at what the pattern says."""
    parts, position = [], 0
    for field in _TEXT_FIELD.finditer(text):
        if field.start() < position:
            continue
        end = end_of_value.search(text, field.end())
        if end is None:
            break
        parts += [text[position : field.end()], _BARE_QUOTE.sub(rb'\\"', text[field.end() : end.start()])]
        position = end.start()
    return b"".join([*parts, text[position:]])


def _null_for_word(match: re.Match[bytes]) -> bytes:
    """Strings as they are, words in place of a number as null."""
    return match.group(1) or match.group(2) + b"null"


def _as_utf8(text: bytes) -> bytes:
    return text if text.isascii() else text.decode("utf-8", "replace").encode("utf-8")


def double_backslashes(text: bytes) -> bytes:
    """Not by `sub`: its list of millions of matches would take a hundred times the memory of the text."""
    if b"\\" not in text:
        return text
    doubled, position = bytearray(), 0
    for match in _ESCAPES.finditer(text):
        if match.end() == match.start() + 1:
            doubled += text[position : match.end()]
            doubled += b"\\"
            position = match.end()
    return bytes(doubled + text[position:]) if position else text


def _blank_controls(text: bytes) -> bytes:
    """A space is harmless where a control character stood, inside a string and outside."""
    return text.translate(_CONTROLS_TO_SPACES)


def _has_control_in_string(text: bytes) -> bool:
    return _RARE_CONTROL.search(text) is not None or any(
        _CONTROL.search(string.group()) for string in _STRING.finditer(text)
    )


_SAFE_MENDS: tuple[Mend, ...] = (
    (_as_utf8, lambda text: _as_utf8(text) != text, Reason.INVALID_UTF8),
    (double_backslashes, lambda text: double_backslashes(text) != text, Reason.LONE_BACKSLASH),
    (_blank_controls, _has_control_in_string, Reason.CONTROL_CHARACTER),
)

_FIELD_MENDS: tuple[tuple[re.Pattern[bytes], bytes | Callable[[re.Match[bytes]], bytes], Reason], ...] = (
    (_BARE_WORD, _null_for_word, Reason.NOT_A_NUMBER),
    (_UNOPENED_KEY, rb'\1"\2"\3', Reason.MISSING_QUOTE),
)
