"""Numbers and lists of numbers as options of a plan."""

from __future__ import annotations

import argparse

from redline.cli.arguments import positive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


_MOST = 1_000_000_000


def several(text: str) -> tuple[int, ...]:
    """1,2,4"""
    return tuple(dict.fromkeys(size(str(positive(part.strip()))) for part in text.split(",")))


def count(text: str) -> int:
    """15T, 4M, 16384"""
    from redline.units import parse_count

    try:
        number = parse_count(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return number


def size(text: str) -> int:
    """A count of what is never more than a billion."""
    number = count(text)
    if number > _MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is more than a billion; check that number")
    return number


def above_zero(text: str) -> float:
    number = _number(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number


def time_s(text: str) -> float:
    """0.05, 50ms or 2s, in seconds"""
    for suffix, factor in (("ms", 1e-3), ("us", 1e-6), ("s", 1.0), ("", 1.0)):
        if text.endswith(suffix):
            return above_zero(text.removesuffix(suffix).strip()) * factor
    raise AssertionError(text)  # the last suffix is that of any text


def share(text: str) -> float:
    """0.2 or 20%"""
    number = _number(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share; write a number from 0 to 1, or 20%")
    return number


def settings(text: str) -> dict[str, float]:
    """moment_bytes=2,dropout=1"""
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name.strip() and equals for name, equals, _value in pairs):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form name=number, such as moment_bytes=2")
    return {name.strip(): _number(value) for name, _equals, value in pairs}


def _number(text: str) -> float:
    from math import isfinite

    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not isfinite(number):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return number


def chosen(names: Mapping[str, int]) -> Callable[[str], tuple[int, ...]]:
    """A list of names, as the numbers that they stand for."""

    def read(text: str) -> tuple[int, ...]:
        words = [word.strip().lower() for word in text.split(",")]
        unknown = [word for word in words if word not in names]
        if unknown:
            raise argparse.ArgumentTypeError(f"there is no {unknown[0]!r}; there are: {', '.join(names)}")
        return tuple(dict.fromkeys(names[word] for word in words))

    return read
