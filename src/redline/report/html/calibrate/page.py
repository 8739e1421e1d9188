"""A calibration as one HTML file that needs nothing else: charts, tables, and how each number is defined."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from redline.hardware import catalogue
from redline.hardware.machine import DTYPES, Machine, too_wide, work_unit
from redline.probes.calibration_record import Calibration, CollectivePoint, Estimate, Peak
from redline.probes.memory import memory_bytes_per_s
from redline.probes.usable import why_not
from redline.report.calibrate import messages as say
from redline.report.calibrate import tables
from redline.report.calibrate.usable_messages import unusable
from redline.report.figure_names import label_of, why_unusable
from redline.report.html.calibrate import figures
from redline.report.html.calibrate.definitions import definitions
from redline.report.html.fact import Fact
from redline.report.html.frame import frame, template
from redline.report.html.tables import sorted_table, table_text
from redline.report.language import _, listed
from redline.report.report_table import ReportTable
from redline.report.text_parts import clipped
from redline.units import format_buffer

_MOST_FACTS = 6


def render(calibration: Calibration, machine: Machine) -> str:
    shown = dict(_tables(calibration, machine))
    collectives = calibration.collectives
    return template("calibrate/page.html.j2").render(
        **frame(
            clipped(machine.name, 80),
            charts=_charts(calibration),
            tables={name: asdict(sorted_table(table)) for name, table in shown.items()},
            words=script_messages(),
            drawers=["calibrate/charts.js"],
        ),
        titles={name: table.title for name, table in shown.items()},
        headline=_headline(calibration),
        unusable=unusable(machine),
        second=say.headline(calibration),
        noise=say.noise(calibration.conditions),
        troubles=list(say.troubles(collectives)),
        health=say.health(collectives) if collectives is not None else "",
        group=say.group_of_processes(collectives) if collectives is not None else "",
        facts=list(_facts(calibration))[:_MOST_FACTS],
        ridge=say.ridge(calibration),
        doubling=say.doubling(calibration),
        has_record=catalogue.record(machine.base) is not None,
        is_synthetic=machine.synthetic,
        about=list(_about(calibration)),
        declined=[
            say.declined(missing) for missing in (*calibration.declined, *(collectives.declined if collectives else ()))
        ],
        definitions=definitions(),
    )


def _charts(calibration: Calibration) -> dict[str, Any]:
    pictures = {
        "roofs": figures.roofs_figure(calibration),
        "bandwidths": figures.bandwidths_figure(calibration),
        "sustained": figures.sustained_figure(calibration),
        "bus": figures.bus_figure(calibration.collectives),
    }
    return {name: asdict(figure) for name, figure in pictures.items() if figure is not None}


def _tables(calibration: Calibration, machine: Machine) -> Iterator[tuple[str, ReportTable]]:
    """Those that have rows."""
    made = {
        "kernels": tables.kernels(calibration, machine),
        "laws": tables.laws(calibration, verbose=True),
        "bandwidths": tables.bandwidths(calibration, verbose=True),
        "movements": tables.movements(calibration),
        "overheads": tables.overheads(calibration),
        "loaders": tables.loaders(calibration),
        "doublings": tables.doublings(calibration),
        "catalogue": tables.against_catalogue(machine),
    }
    if calibration.collectives is not None:
        made["collectives"] = tables.collectives(calibration.collectives, verbose=True)
        made["ranks"] = tables.ranks(calibration.collectives)
        made["pairs"] = tables.pairs(calibration.collectives)
    yield from ((name, table) for name, table in made.items() if table is not None and table.rows)


# --- the first screen -------------------------------------------------------------------------------------------------


def _headline(calibration: Calibration) -> str:
    """What the machine can do, in a sentence."""
    name = clipped(calibration.subject.name, 60)
    rates = [
        _("{rate} in {dtype}").format(
            rate=say.amount(peak.burst_flops_per_s.value, work_unit(peak.dtype)), dtype=peak.dtype
        )
        for peak in _fastest(calibration)[:2]
    ]
    memory = memory_bytes_per_s(calibration.bandwidths)
    if rates and memory is not None and not why_not(memory, calibration):
        text = _("{name} reaches at most {rates}, and a memory bandwidth of {bandwidth}.")
        return text.format(name=name, rates=listed(rates), bandwidth=say.amount(memory.value, "B/s"))
    if rates:
        return _("{name} reaches at most {rates}.").format(name=name, rates=listed(rates))
    measured = [*(peak.burst_flops_per_s for peak in calibration.peaks), *([memory] if memory else [])]
    why = next((why for estimate in measured if (why := why_not(estimate, calibration))), "")
    if not why:
        return name
    text = _("{name} could not be measured well enough: {why}. Calibrate again on a quiet machine.")
    return text.format(name=name, why=why_unusable(why))


def _fastest(calibration: Calibration) -> list[Peak]:
    """Of those that can be used. How fp32 may be computed besides is for the table: people do not name that a type."""
    plain = [
        peak for peak in calibration.peaks if peak.dtype in DTYPES and not why_not(peak.burst_flops_per_s, calibration)
    ]
    return sorted(plain, key=lambda peak: -peak.burst_flops_per_s.value)


def _facts(calibration: Calibration) -> Iterator[Fact]:
    """Only figures that can be used."""
    for peak in _fastest(calibration)[:2]:
        name = _("best matmul {dtype}").format(dtype=peak.dtype)
        yield _fact(name, peak.burst_flops_per_s, work_unit(peak.dtype), clipped(peak.shape, 40))
    memory = memory_bytes_per_s(calibration.bandwidths)
    if memory is not None and not why_not(memory, calibration):
        yield _fact(_("memory bandwidth"), memory, "B/s", _("beyond the caches"))
    roofline = calibration.roofline
    if roofline is not None and not why_not(roofline.ridge_flops_per_byte, calibration):
        yield _fact(
            _("ridge"), roofline.ridge_flops_per_byte, "", _("FLOP per byte in {dtype}").format(dtype=roofline.dtype)
        )
    for point in calibration.overheads:
        if point.name in ("launch", "dispatch") and not why_not(point.time_ns, calibration, on_host=True):
            yield _fact(label_of(f"{point.name}_ns"), point.time_ns, "ns", _("of one operator"))
    reduced = _largest_all_reduce(calibration)
    if reduced is not None and not too_wide(tables.bus_bandwidth(reduced).reach):
        size = format_buffer(reduced.size_bytes)
        detail = _("bus bandwidth at {size}").format(size=size)
        yield _fact("all_reduce", tables.bus_bandwidth(reduced), "B/s", detail)


def _largest_all_reduce(calibration: Calibration) -> CollectivePoint | None:
    points = calibration.collectives.points if calibration.collectives else ()
    own = [point for point in points if point.operation == "all_reduce" and point.group == "world"]
    return max(own, key=lambda point: point.size_bytes, default=None)


def _fact(name: str, estimate: Estimate, unit: str, detail: str = "") -> Fact:
    details = [text for text in (say.interval(estimate), detail) if text]
    return Fact(name=name, value=say.amount(estimate.value, unit), detail=listed(details))


def _about(calibration: Calibration) -> Iterator[tuple[str, str]]:
    subject = calibration.subject
    yield _("machine"), say.machine(subject)
    yield _("host"), clipped(subject.host, 80)
    yield _("memory"), format_buffer(subject.memory_bytes)
    yield _("date"), say.day(calibration.date)
    yield _("duration"), _("{seconds} s").format(seconds=say.seconds(calibration))
    yield _("software"), say.software(subject)
    yield _("samples"), say.samples(calibration)
    yield _("noise"), say.noise(calibration.conditions) or _("none notable")


def script_messages() -> dict[str, str]:
    """What the scripts say."""
    return {
        **table_text(),
        "intensity": _("FLOP per byte of memory traffic"),
        "rate": _("FLOP/s"),
        "working_set": _("working set in bytes"),
        "bandwidth": _("bytes per second"),
        "size": _("payload in bytes"),
        "memory_roof": _("memory {rate}"),
        "ridge": _("ridge"),
        "seconds": _("seconds under load"),
        "of_burst": _("% of the burst"),
        "measured": _("measured"),
        "ring": _("ring model"),
    }
