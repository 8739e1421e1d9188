"""Machines of the catalogue: a table of all, or everything about one; docs/reference/hardware.md describes the JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

from redline.hardware.machine import DTYPES, FIGURE_UNITS, PEAK, Figure, Machine
from redline.report.data import enveloped, picked
from redline.report.document import Document, Heading, Items, LabelledLines, ReportColumn, table_of
from redline.report.figure_names import label
from redline.report.text_parts import clipped, plural
from redline.units import format_ns, format_rate

_LEGEND = (
    "peaks are dense; fabric is per direction; best matmul is the highest measured rate, with its share of the peak"
)


# --- all --------------------------------------------------------------------------------------------------------------


def document_of_all(machines: Sequence[Machine]) -> Document:
    lines = (
        Items(items=(f"{plural(len(machines), 'record')}: {_LEGEND}", ""), mark=""),
        table_of(COLUMNS, machines),
        Items(items=("", "redline hardware NAME shows all of one record, with the source of every number"), mark=""),
    )
    return Document(blocks=(lines,), has_long_lines=True)


def _is_doubtful(machine: Machine) -> bool:
    return any(figure.low_confidence for figure in machine.figures.values())


def _half_matmul(machine: Machine) -> Figure | None:
    return machine.best_matmul_flops_per_s(_half(machine))


def _half_peak(machine: Machine) -> str:
    dtype = _half(machine)
    peak = machine.peak_flops_per_s(dtype)
    return _amount(peak, "FLOP/s") + (f" {dtype}" if peak else "")


def _half(machine: Machine) -> str:
    """The 16-bit type that the machine is judged by: bf16, or fp16 where it has no bf16."""
    return "fp16" if machine.peak_flops_per_s("bf16") is None and machine.peak_flops_per_s("fp16") else "bf16"


def _share(best: Figure | None, peak: Figure | None) -> str:
    return "-" if best is None or peak is None else f"{100 * best.value / peak.value:.1f} %"


COLUMNS = (
    ReportColumn("name", "name", lambda name: clipped(name, 60)),
    ReportColumn("memory_bytes", "memory", lambda figure: _amount(figure, "B")),
    ReportColumn("memory_bytes_per_s", "bandwidth", lambda figure: _amount(figure, "B/s")),
    ReportColumn("peak", "16-bit peak", read=_half_peak),
    ReportColumn("fp8", "fp8 peak", read=lambda machine: _amount(machine.peak_flops_per_s("fp8"), "FLOP/s")),
    ReportColumn("fabric_bytes_per_s", "fabric", lambda figure: _amount(figure, "B/s")),
    ReportColumn("matmul", "best matmul", read=lambda machine: _amount(_half_matmul(machine), "FLOP/s")),
    ReportColumn("share", read=lambda machine: _share(_half_matmul(machine), machine.peak_flops_per_s(_half(machine)))),
    ReportColumn("doubt", read=lambda machine: "low confidence" if _is_doubtful(machine) else ""),
)


# --- one --------------------------------------------------------------------------------------------------------------


def document_of(machine: Machine) -> Document:
    names = [name for name in FIGURE_UNITS if name in machine.figures]
    sources = list(dict.fromkeys(machine.figures[name].source for name in names))
    columns = (
        ReportColumn("figure", "figure", read=label),
        ReportColumn("value", "value", read=lambda name: _value(machine, name)),
        ReportColumn("origin", "origin", read=lambda name: str(machine.figures[name].origin)),
        ReportColumn("date", "date", read=lambda name: machine.figures[name].date),
        ReportColumn("source", "source", read=lambda name: _remark(machine.figures[name], sources)),
    )
    numbered = tuple((f"[{number}]", clipped(source, 1000)) for number, source in enumerate(sources, start=1))
    return Document(
        blocks=(
            (Heading(text=_headline(machine)), LabelledLines(lines=tuple(_facts(machine)))),
            *([table_of(columns, names)] if names else []),
            LabelledLines(lines=numbered),
            LabelledLines(lines=tuple(("note", clipped(note, 1000)) for note in machine.notes)),
        ),
        has_long_lines=True,
    )


def _headline(machine: Machine) -> str:
    words = [machine.vendor, machine.architecture, machine.form, str(machine.year or "")]
    synthetic = " (synthetic, not a measurement)" if machine.synthetic else ""
    about = ", ".join(clipped(word, 60) for word in words if word)
    return clipped(machine.name, 120) + (f": {about}" if about else "") + synthetic


def _facts(machine: Machine) -> Iterator[tuple[str, str]]:
    if machine.base:
        yield ("base", f"{machine.base}, for every figure that was not calibrated")
    if machine.driver_names:
        yield ("prints", ", ".join(machine.driver_names))
    built = [word for word in (machine.memory_type, machine.link, machine.engines) if word]
    if built:
        yield ("built of", ", ".join(built))
    yield ("ridge", _ridge(machine))
    for name in FIGURE_UNITS:
        if name in machine.unusable:
            yield ("not used", _not_used(machine.unusable[name], name))


def _ridge(machine: Machine) -> str:
    dtype = _half(machine)
    ridge = machine.ridge_flops_per_byte(dtype)
    if ridge is None:
        return "unknown: needs a 16-bit peak and the memory bandwidth"
    return f"{ridge:.1f} FLOP/byte in {dtype}: compute-bound above, memory-bound below"


def _remark(figure: Figure, sources: list[str]) -> str:
    remark = f"[{sources.index(figure.source) + 1}]"
    if figure.low_confidence:
        remark += " low confidence"
    return remark if figure.spread is None else f"{remark} spread {100 * figure.spread:.1f} %"


def _not_used(figure: Figure, name: str) -> str:
    return f"{label(name)}, measured as {_amount(figure, FIGURE_UNITS[name])}: {clipped(figure.unusable, 200)}"


def _value(machine: Machine, name: str) -> str:
    figure = machine.figures[name]
    unit = FIGURE_UNITS[name]
    if name.startswith("best_matmul"):
        share = _share(figure, machine.figures.get(f"{PEAK}.{name.partition('.')[2]}"))
        return _amount(figure, unit) + ("" if share == "-" else f", {share} of the peak")
    return _amount(figure, unit)


def _amount(figure: Figure | None, unit: str) -> str:
    """1307.4e12 FLOP/s -> "1,307.4 TFLOP/s": in one unit for all machines, as data sheets have it."""
    if figure is None:
        return "-"
    if unit == "ns":
        return format_ns(round(figure.value))
    prefix, scale = ("T", 1e12) if unit in {"FLOP/s", "OP/s"} else ("G", 1e9) if unit in {"B", "B/s"} else ("", 1.0)
    if prefix and figure.value < scale:
        return format_rate(figure.value, unit.removesuffix("/s")).removesuffix("" if unit.endswith("/s") else "/s")
    return f"{figure.value / scale:,.2f}".rstrip("0").rstrip(".") + f" {prefix}{unit}".rstrip()


# --- for programs -----------------------------------------------------------------------------------------------------


def record(machines: Sequence[Machine]) -> dict[str, Any]:
    synthetic = any(machine.synthetic for machine in machines)
    content = {"machines": list(map(_machine, machines))}
    return enveloped("hardware", 1, "redline hardware", content, synthetic=synthetic)


def _machine(machine: Machine) -> dict[str, Any]:
    ridges = {dtype: machine.ridge_flops_per_byte(dtype) for dtype in DTYPES}
    unusable = machine.unusable
    return {
        **picked(machine, "name base vendor architecture form year driver_names memory_type link engines notes"),
        "ridge_flops_per_byte": {dtype: ridge for dtype, ridge in ridges.items() if ridge is not None},
        "figures": [_figure(name, machine.figures[name]) for name in FIGURE_UNITS if name in machine.figures],
        "unusable": [
            {**_figure(name, unusable[name]), "why": unusable[name].unusable}
            for name in FIGURE_UNITS
            if name in unusable
        ],
    }


def _figure(name: str, figure: Figure) -> dict[str, Any]:
    named = {"name": name, "value": figure.value, "unit": FIGURE_UNITS[name]}
    return {**named, **picked(figure, "origin source date low_confidence spread")}
