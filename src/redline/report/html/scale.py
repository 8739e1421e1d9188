"""One unit for all values of a chart, so that they can be compared by eye."""

from collections.abc import Iterable

_UNITS = (("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9))


def time_unit(longest_ns: float) -> tuple[str, float]:
    """The unit that shows the longest time as a number of at least 1, and how many ns it is."""
    return next((unit for unit in reversed(_UNITS) if longest_ns >= unit[1]), _UNITS[0])


def scaled(values_ns: Iterable[float], unit_ns: float) -> list[float]:
    """Five digits are more than a chart can show."""
    return [float(f"{value / unit_ns:.5g}") for value in values_ns]
