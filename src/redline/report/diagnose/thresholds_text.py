"""Thresholds that were crossed, or that could not be checked, one line each."""

from redline.findings.thresholds import Outcome, Unit
from redline.report.text_parts import percent
from redline.units import format_ns


def crossed_line(outcome: Outcome) -> str:
    """ "threshold idle>20% is crossed: idle is 34.2 %"."""
    threshold = outcome.threshold
    return f"threshold {threshold.text} is crossed: {threshold.quantity.name} is {_value(outcome)}"


def unknown_line(outcome: Outcome) -> str:
    return f"threshold {outcome.threshold.text} cannot be checked: {outcome.reading.why_not}"


def _value(outcome: Outcome) -> str:
    value, unit = outcome.reading.value or 0.0, outcome.threshold.quantity.unit
    if not outcome.threshold.sign:
        return f"found, worth at most {percent(value)} of the step" if value else "found"
    shown = percent(value) if unit is Unit.SHARE else format_ns(round(value)) if unit is Unit.TIME else f"{value:,.0f}"
    return f"at least {shown}" if outcome.reading.is_least else shown
