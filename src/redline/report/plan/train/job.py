"""What a whole training job takes, in words: days, GPU-hours, money, energy, and what failures take of them."""

from collections.abc import Callable, Iterator
from math import isinf
from operator import attrgetter

from redline.plan.job import JobCost, ThreePointEstimate
from redline.report.document import ReportColumn, ReportTable, table_of
from redline.report.language import _
from redline.report.plan.amounts import UNITS, count, share
from redline.report.text_parts import clipped

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0


def facts(cost: JobCost) -> Iterator[tuple[str, str]]:
    job = cost.job
    yield _("steps"), _("{steps:,}, without failures {days}").format(steps=job.steps, days=span(cost.ideal_days, days))
    yield _("goodput"), _("{share} of the time makes progress").format(share=span(cost.goodput, share))
    yield _("time"), span(cost.days, days)
    yield _("GPU-hours"), span(cost.device_hours, count)
    if cost.money is not None:
        text = _("{money} at {price:g} per GPU-hour")
        yield _("money"), text.format(money=span(cost.money, count), price=job.price_per_device_hour)
    if cost.energy_wh is not None:
        text = _("{energy} by the GPUs, at {share} of their rated power")
        yield _("energy"), text.format(energy=span(cost.energy_wh, watt_hours), share=share(job.power_share))


def cases(cost: JobCost, *, brief: bool, unit: str = "tokens") -> ReportTable:
    """Failure rates and ways to recover, each with its best time between checkpoints."""
    columns = (
        ReportColumn("rate", _("failure rate of"), lambda rate: clipped(rate.id, 30)),
        ReportColumn("mean_time_between_failures_s", _("MTBF"), duration),
        ReportColumn("recovery", _("recovery"), lambda recovery: clipped(recovery.id, 30)),
        ReportColumn("restart_s", _("restart"), duration, attrgetter("recovery.restart_s")),
        ReportColumn("checkpoint_s", _("checkpoint"), duration, attrgetter("recovery.checkpoint_s")),
        ReportColumn("interval_s", _("best interval"), duration),
        ReportColumn("goodput", _("goodput"), share),
        ReportColumn("time_s", _("time"), lambda time_s: days(time_s / _DAY)),
    )
    shown = [scenario for scenario in cost.cases if scenario.in_band or not brief]
    title = _("the whole job: {count} {unit}").format(count=count(cost.job.tokens), unit=_(UNITS[unit]))
    note = _("range: the interval of the step time, and all of these failure rates and recoveries")
    return table_of(columns, shown, title=title, notes=[note])


# --- amounts ----------------------------------------------------------------------------------------------------------


def span(estimate: ThreePointEstimate, shown: Callable[[float], str]) -> str:
    """The likely value, from the least to the most."""
    low, likely, high = map(shown, (estimate.low, estimate.likely, estimate.high))
    return (
        likely if low == likely == high else _("{likely} ({low} to {high})").format(likely=likely, low=low, high=high)
    )


def days(number: float) -> str:
    if isinf(number):
        return _("never ends")
    if number < 2:
        return _("{hours:.1f} hours").format(hours=24 * number)
    return _("{days} days").format(days=f"{number:,.0f}" if number >= 100 else f"{number:.1f}")


def duration(time_s: float) -> str:
    """As people say how long they wait."""
    if isinf(time_s):
        return "-"
    for unit, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if time_s >= 1.5 * unit:
            return f"{time_s / unit:,.0f} {name}" if time_s >= 20 * unit else f"{time_s / unit:.1f} {name}"
    return f"{time_s:.3g} s"


def watt_hours(energy_wh: float) -> str:
    """In MWh, as electricity is paid for."""
    mwh = energy_wh / 1e6
    return f"{mwh:,.0f} MWh" if mwh >= 100 else f"{mwh:.3g} MWh"
