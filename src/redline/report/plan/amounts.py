"""What all plans say alike: counts, times, bytes, chances, parameters and errors for people; amounts as JSON."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from math import isfinite
from typing import Any, Protocol

import numpy as np

from redline.report.language import _, clauses, listed, marked
from redline.report.text_parts import clipped, interval
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


def parameters(total: int, active_ones: int) -> str:
    """Of a model, and those that one token meets."""
    said = _("{total} parameters").format(total=count(total))
    return said if active_ones == total else listed([said, active(active_ones)])


def active(number: int) -> str:
    return _("{count} active per token").format(count=count(number))


# --- how sure a plan is -----------------------------------------------------------------------------------------------


LEFT_OUT: Mapping[str, str] = {
    "layout": marked("layout"),
    "model": marked("model"),
    "gpus": marked("number of GPUs"),
    "gpu": marked("GPU"),
    "gpu anywhere": marked("GPU, all stacks"),
    "stack": marked("stack"),
    "source": marked("source"),
    "family": marked("GPU family"),
}
"""Groups of runs that were left out of a fit, by the situation of plans that runs of theirs stand for."""
UNITS: Mapping[str, str] = {name: name for name in (marked("tokens"), marked("samples"))}


class Errors(Protocol):
    """How far predictions were off on runs that they were not fitted to."""

    @property
    def rows(self) -> int: ...

    @property
    def median(self) -> float: ...

    @property
    def p90(self) -> float: ...


def errors(of: Errors, situation: str, whose: str) -> str:
    text = _("median error {median}, p90 {p90}, on {rows:,} runs whose {what} was left out of the fit ({whose})")
    what = _(LEFT_OUT[situation.partition(" ")[0]])
    return text.format(median=share(of.median), p90=share(of.p90), rows=of.rows, what=what, whose=whose)


def within(value: str, low: str, high: str) -> str:
    """A figure with the interval of such predictions."""
    return clauses([value, _("80 % interval: {interval}").format(interval=interval(low, high))])


def oom(share: float) -> str:
    return _("OOM probability {chance}").format(chance=chance(share))


def model_name(name: str) -> str:
    return clipped(name, 60) or _("a model")


def digits(value: float, most: int = 5) -> float:
    """As many as a chart can show."""
    return float(f"{value:.{most}g}")


# --- for programs -----------------------------------------------------------------------------------------------------


def figures(value: object, names: str) -> dict[str, Any]:
    """Some of what a record has, by names with blanks between them."""
    return {name: plain(getattr(value, name)) for name in names.split()}


def plain(value: Any) -> Any:
    """Records as objects, numbers of NumPy as numbers; null where a number is infinite or none."""
    if is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist())
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, float):
        return _number(value)
    return value


def _number(value: float) -> float | int | None:
    """Layouts count in whole numbers, although they are columns of floats."""
    if not isfinite(value):
        return None
    return int(value) if value.is_integer() and abs(value) < 2**53 else value
