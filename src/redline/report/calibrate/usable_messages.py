"""Figures of a calibration that cannot be used, in words: which, why, and what to do."""

from collections.abc import Sequence

from redline.hardware.machine import FIGURE_UNITS, Machine
from redline.report.figure_names import label, why_unusable
from redline.report.language import _, clauses, listed

_MOST_REASONS = 4  # and as many figures with each


def unusable(machine: Machine) -> str:
    """Which figures cannot be used, by reason, and what to do; "" where all can."""
    reasons: dict[str, list[str]] = {}
    for name in FIGURE_UNITS:
        if name in machine.unusable:
            reasons.setdefault(machine.unusable[name].unusable, []).append(label(name))
    if not reasons:
        return ""
    told = [_named_with(names, why) for why, names in list(reasons.items())[:_MOST_REASONS]]
    rest = sum(map(len, list(reasons.values())[_MOST_REASONS:]))
    told += [_("{count} more").format(count=rest)] if rest else []
    text = _("{told}. `redline diagnose` and `redline plan` do not use them. Calibrate again on a quiet machine.")
    return text.format(told=clauses(told))


def _named_with(names: Sequence[str], why: str) -> str:
    more = [_("{count} more").format(count=len(names) - _MOST_REASONS)] if len(names) > _MOST_REASONS else []
    text = _("{names}: {why}")
    return text.format(names=listed([*names[:_MOST_REASONS], *more]), why=why_unusable(why))
