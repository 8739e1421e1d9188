"""Turn quantities into text and back: bytes, durations, counts, rates. Imports nothing of ours.

One convention everywhere: prefixes are decimal (1 MB is 1,000,000 bytes); only a written `i` (MiB) means powers of
1024. Durations are whole nanoseconds. Bytes and rates are shown with three significant digits, durations with four.
"""

import re
from math import isfinite

_PREFIXES = ("", "k", "M", "G", "T", "P", "E")
_BYTES = tuple(f"{prefix}B" for prefix in _PREFIXES)
_TIMES = ("ns", "us", "ms", "s")
_SIZE_TEXT = re.compile(r"\s*([0-9]{1,15})(?:\.([0-9]{1,15}))?\s*([a-zA-Z]*)\s*", re.ASCII)
_COUNT_TEXT = re.compile(
    r"\s*([0-9]{1,18}|[0-9]{1,3}(?:,[0-9]{3}){1,5})(?:\.([0-9]{1,18}))?(?:[eE]\+?([0-9]{1,2}))?\s*([kmbtKMBT]?)\s*",
    re.ASCII,
)
_POWERS = {"": 0, "k": 3, "m": 6, "b": 9, "t": 12}


def format_bytes(size_bytes: int) -> str:
    """1_500_000 -> "1.50 MB"; sizes below 1 kB are exact: "512 B"."""
    if abs(size_bytes) < 1000:
        return f"{size_bytes} B"
    return _scaled(size_bytes, _BYTES, digits=3)


def format_buffer(size_bytes: int) -> str:
    """2_097_152 -> "2 MiB": sizes that were chosen are often powers of two. Others as any: "2.10 MB"."""
    for unit, unit_bytes in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        count, rest = divmod(size_bytes, unit_bytes)
        if 0 < count < 1024 and not rest:
            return f"{count} {unit}"
    return format_bytes(size_bytes)


def format_memory(size_bytes: int) -> str:
    """4_202_692_608 -> "3.914 GiB": memory of devices in the units of torch's own messages, with four digits."""
    if abs(size_bytes) < 1024:
        return f"{size_bytes} B"
    power = min((abs(size_bytes).bit_length() - 1) // 10, 4)
    if abs(size_bytes) >= 1000 << 10 * power and power < 4:  # 0.979 GiB, not 1002 MiB
        power += 1
    value = size_bytes / (1 << 10 * power)
    digits = max(0, 3 - len(str(int(abs(value)))) + 1)
    return f"{value:.{digits}f} {('', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def format_ns(duration_ns: int) -> str:
    """1_234_567 -> "1.235 ms"; durations below 1 us are exact: "870 ns"."""
    if abs(duration_ns) < 1000:
        return f"{duration_ns} ns"
    return _scaled(duration_ns, _TIMES, digits=4)


def format_count(count: int) -> str:
    """1234567 -> "1,234,567"."""
    return f"{count:,}"


def format_rate(amount_per_s: float, unit: str) -> str:
    """(3.12e14, "FLOP") -> "312 TFLOP/s"."""
    if not isfinite(amount_per_s):
        raise ValueError(f"a rate of {amount_per_s} {unit}/s is not a number that can be shown")
    return _scaled(amount_per_s, tuple(f"{prefix}{unit}/s" for prefix in _PREFIXES), digits=3)


def parse_bytes(text: str) -> int:
    """ "200MB" -> 200_000_000, "1 GiB" -> 1_073_741_824; a bare number is bytes, the case of letters is ignored."""
    match = _SIZE_TEXT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a size; write a number and a unit, such as 200MB or 1.5GiB")
    whole, fraction, unit = match[1], match[2] or "", match[3]
    scale = int("1" + "0" * len(fraction))
    size_bytes, remainder = divmod(int(whole + fraction) * _bytes_per(unit, text), scale)
    if remainder:
        raise ValueError(f"{text!r} is not a whole number of bytes")
    return size_bytes


def parse_count(text: str) -> int:
    """ "15T" -> 15_000_000_000_000, "1.5B", "1e12", "16,384": of tokens or parameters; B is 10^9, case is ignored."""
    match = _COUNT_TEXT.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text!r} is not a count; write a number such as 16384, 1e12 or 1.5B, with K, M, B or T after it"
        )
    whole, fraction, exponent, suffix = match[1].replace(",", ""), match[2] or "", match[3] or "0", match[4].lower()
    zeros = "0" * (int(exponent) + _POWERS[suffix])
    count, remainder = divmod(int(whole + fraction + zeros), int("1" + "0" * len(fraction)))
    if remainder:
        raise ValueError(f"{text!r} is not a whole number")
    return count


def _bytes_per(unit: str, text: str) -> int:
    letters = unit.lower().removesuffix("b")
    base = 1024 if letters.endswith("i") else 1000
    prefixes = [prefix.lower() for prefix in _PREFIXES]
    if letters == "i" or letters.removesuffix("i") not in prefixes:
        raise ValueError(f"{text!r} has an unknown unit {unit!r}; use B, kB, MB, GB, TB, or KiB, MiB, GiB, TiB")
    return int(base ** prefixes.index(letters.removesuffix("i")))


def _scaled(amount: float, names: tuple[str, ...], digits: int) -> str:
    """The amount in the smallest unit of `names`, each 1000 times the one before, that keeps it below 1000."""
    power = 0
    while power < len(names) - 1 and abs(float(_rounded(amount / 1000**power, digits))) >= 1000:
        power += 1
    value = amount / 1000**power
    exponent = int(_rounded(value, digits).partition("e")[2])
    return f"{value:,.{max(0, digits - 1 - exponent)}f} {names[power]}"


def _rounded(value: float, digits: int) -> str:
    return f"{value:.{digits - 1}e}"
