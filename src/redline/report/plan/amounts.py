"""The amounts of a plan, for people: counts, times, bytes, chances, multiples, parameters."""

from redline.report.language import _
from redline.units import format_bytes, format_ns

_COUNTS = ("", " k", " M", " B", " T", " Q")
_RARE, _SURE = 0.01, 0.99  # chances beyond these are not known any better


def count(number: float) -> str:
    """8_030_000_000 -> "8.03 B"; below 1000 as it is."""
    power, value = 0, float(number)
    while abs(value) >= 999.5 and power < len(_COUNTS) - 1:
        power, value = power + 1, value / 1000
    if not power:
        return f"{value:.4g}"
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{digits}f}{_COUNTS[power]}"


def seconds(time_s: float) -> str:
    return format_ns(round(time_s * 1e9))


def gigabytes(size_bytes: float) -> str:
    """In one unit for all, so that devices and what they hold can be compared by eye."""
    gb = size_bytes / 1e9
    return f"{gb:,.0f} GB" if gb >= 1000 else f"{gb:.1f} GB" if gb >= 0.1 else format_bytes(round(size_bytes))


def chance(share: float) -> str:
    """A chance that is not known better than to a percent."""
    if share < _RARE:
        return _("below 1 %")
    return _("above 99 %") if share > _SURE else f"{100 * share:.0f} %"


def short_chance(share: float) -> str:
    return "<1 %" if share < _RARE else ">99 %" if share > _SURE else f"{100 * share:.0f} %"


def times(ratio: float) -> str:
    """1.85 -> "1.85x", with as many digits as say something."""
    return f"{ratio:.2f}x" if ratio < 9.995 else f"{ratio:.1f}x" if ratio < 99.95 else f"{ratio:,.0f}x"


def share(part: float) -> str:
    return f"{100 * part:.1f} %"


def parameters(total: int, active: int) -> str:
    """Of a model, and those that one token meets."""
    if active == total:
        return _("{total} parameters").format(total=count(total))
    text = _("{total} parameters, {active} active per token")
    return text.format(total=count(total), active=count(active))
