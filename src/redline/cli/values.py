"""Texts of options as values; an argparse.ArgumentTypeError says what a text should have been."""

from __future__ import annotations

import argparse
import math
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

_MOST = 1_000_000_000
_MOST_DIGITS = 18


def positive(text: str) -> int:
    return _whole(text, least=1)


def whole(text: str) -> int:
    return _whole(text, least=0)


def _whole(text: str, least: int) -> int:
    if not text.isascii() or not text.isdigit() or int(text[:_MOST_DIGITS]) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of {least} or more")
    if len(text) > _MOST_DIGITS:
        raise argparse.ArgumentTypeError(f"{text!r} is too large a number")
    return int(text)


def number(
    what: str, least: float = -math.inf, most: float = math.inf, *, above: bool = False
) -> Callable[[str], float]:
    """Reads a number from `least` to `most`, or above `least`; what is said of others is "'x' is not WHAT"."""

    def read(text: str) -> float:
        found = _float(text)
        if not least <= found <= most or (above and found == least):
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return found

    return read


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def above_zero(text: str) -> float:
    found = any_number(text)
    if found <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return found


def any_number(text: str) -> float:
    found = _float(text)
    if not math.isfinite(found):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return found


def share(text: str) -> float:
    """0.2 or 20%"""
    found = any_number(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 <= found <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share; write a number from 0 to 1, or 20%")
    return found


def share_of_time(text: str) -> float:
    """1% or 0.01"""
    found = _float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 <= found <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share, such as 1% or 0.01")
    return found


def time_s(text: str) -> float:
    """0.05, 50ms or 2s, in seconds"""
    for suffix, factor in (("ms", 1e-3), ("us", 1e-6), ("s", 1.0), ("", 1.0)):
        if text.endswith(suffix):
            return above_zero(text.removesuffix(suffix).strip()) * factor
    raise AssertionError(text)  # the last suffix is that of any text


def size_bytes(text: str) -> int:
    """200MB, 1.5GiB"""
    from redline.units import parse_bytes

    parsed: int = _parsed(parse_bytes, text)
    return parsed


def count(text: str) -> int:
    """15T, 4M, 16384"""
    from redline.units import parse_count

    found: int = _parsed(parse_count, text)
    if found < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return found


def size(text: str) -> int:
    """A count of what is never more than a billion."""
    found = count(text)
    if found > _MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is more than a billion; check that number")
    return found


def several(text: str) -> tuple[int, ...]:
    """1,2,4"""
    return tuple(dict.fromkeys(size(str(positive(part.strip()))) for part in text.split(",")))


def names(text: str) -> tuple[str, ...]:
    """bf16,fp8"""
    return tuple(dict.fromkeys(word.strip().lower() for word in text.split(",")))


def settings(text: str) -> dict[str, float]:
    """moment_bytes=2,dropout=1"""
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name.strip() and equals for name, equals, _value in pairs):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form name=number, such as moment_bytes=2")
    return {name.strip(): any_number(value) for name, _equals, value in pairs}


def chosen(known: Mapping[str, int]) -> Callable[[str], tuple[int, ...]]:
    """A list of names, as the numbers that they stand for."""

    def read(text: str) -> tuple[int, ...]:
        unknown = [word for word in names(text) if word not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"there is no {unknown[0]!r}; there are: {', '.join(known)}")
        return tuple(dict.fromkeys(known[word] for word in names(text)))

    return read


def regex(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise argparse.ArgumentTypeError(f"{text!r:.80} is not a regular expression: {error}") from error
    return text


def condition(text: str) -> str:
    from redline.capture.worker.recording.condition import check_condition

    _parsed(check_condition, text)
    return text


def signal_number(text: str) -> int:
    import signal

    try:
        return signal.Signals["SIG" + text.upper().removeprefix("SIG")].value
    except KeyError:
        raise argparse.ArgumentTypeError(f"{text!r} is no signal; USR1 and USR2 are") from None


def _parsed(parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
