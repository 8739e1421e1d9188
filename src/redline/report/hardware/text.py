"""The result of `hardware` as text for a terminal: a table of machines, or everything about one."""

from collections.abc import Iterator, Sequence

from redline.hardware.machine import FIGURE_UNITS, PEAK, Figure, Machine
from redline.report.display import Style, styled
from redline.report.figure_names import label
from redline.report.terminal import as_text, fitted, left
from redline.report.text_parts import clipped, plural
from redline.report.text_table import table
from redline.units import format_ns, format_rate

_LABEL_WIDTH = 10
_HEAD = ("name", "memory", "bandwidth", "16-bit peak", "fp8 peak", "fabric", "best matmul", "", "")
_LEGEND = (
    "peaks are dense; fabric is per direction; best matmul is the highest measured rate, with its share of the peak"
)
_FIGURE_HEAD = ("figure", "value", "origin", "date", "source")


# --- all --------------------------------------------------------------------------------------------------------------


def render_table(machines: Sequence[Machine]) -> str:
    lines = [
        *fitted(f"{plural(len(machines), 'record')}: {_LEGEND}"),
        "",
        *table(_HEAD, map(_row, machines)),
        "",
        *fitted("redline hardware NAME shows all of one record, with the source of every number"),
    ]
    return as_text([lines])


def _row(machine: Machine) -> tuple[str, ...]:
    dtype = _half(machine)
    peak, best = machine.peak_flops_per_s(dtype), machine.best_matmul_flops_per_s(dtype)
    doubtful = any(figure.low_confidence for figure in machine.figures.values())
    return (
        clipped(machine.name, 60),
        _amount(machine.memory_bytes, "B"),
        _amount(machine.memory_bytes_per_s, "B/s"),
        _amount(peak, "FLOP/s") + (f" {dtype}" if peak else ""),
        _amount(machine.peak_flops_per_s("fp8"), "FLOP/s"),
        _amount(machine.fabric_bytes_per_s, "B/s"),
        _amount(best, "FLOP/s"),
        _share(best, peak),
        "low confidence" if doubtful else "",
    )


def _half(machine: Machine) -> str:
    """The 16-bit type that the machine is judged by: bf16, or fp16 where it has no bf16."""
    return "fp16" if machine.peak_flops_per_s("bf16") is None and machine.peak_flops_per_s("fp16") else "bf16"


def _share(best: Figure | None, peak: Figure | None) -> str:
    return "-" if best is None or peak is None else f"{100 * best.value / peak.value:.1f} %"


# --- one --------------------------------------------------------------------------------------------------------------


def render_one(machine: Machine) -> str:
    figures = {name: machine.figures[name] for name in FIGURE_UNITS if name in machine.figures}
    sources = list(dict.fromkeys(figure.source for figure in figures.values()))
    blocks = [
        [*fitted(styled(_headline(machine), Style.HEADING)), *_facts(machine)],
        table(_FIGURE_HEAD, (_figure_row(machine, name, sources) for name in figures)) if figures else [],
        [
            line
            for number, source in enumerate(sources, start=1)
            for line in _fact(f"[{number}]", clipped(source, 1000))
        ],
        [line for note in machine.notes for line in _fact("note", clipped(note, 1000))],
    ]
    return as_text(blocks)


def _headline(machine: Machine) -> str:
    words = [machine.vendor, machine.architecture, machine.form, str(machine.year or "")]
    synthetic = " (synthetic, not a measurement)" if machine.synthetic else ""
    about = ", ".join(clipped(word, 60) for word in words if word)
    return clipped(machine.name, 120) + (f": {about}" if about else "") + synthetic


def _facts(machine: Machine) -> Iterator[str]:
    if machine.base:
        yield from _fact("base", f"{machine.base}, for every figure that was not calibrated")
    if machine.driver_names:
        yield from _fact("prints", ", ".join(machine.driver_names))
    built = [word for word in (machine.memory_type, machine.link, machine.engines) if word]
    if built:
        yield from _fact("built of", ", ".join(built))
    yield from _fact("ridge", _ridge(machine))
    for name in FIGURE_UNITS:
        if name in machine.unusable:
            yield from _fact("not used", _not_used(machine.unusable[name], name))


def _ridge(machine: Machine) -> str:
    dtype = _half(machine)
    ridge = machine.ridge_flops_per_byte(dtype)
    if ridge is None:
        return "unknown: needs a 16-bit peak and the memory bandwidth"
    return f"{ridge:.1f} FLOP/byte in {dtype}: compute-bound above, memory-bound below"


def _fact(label: str, text: str) -> list[str]:
    return fitted(text, styled(left(label, _LABEL_WIDTH), Style.LABEL))


def _figure_row(machine: Machine, name: str, sources: list[str]) -> tuple[str, ...]:
    figure = machine.figures[name]
    remark = f"[{sources.index(figure.source) + 1}]"
    if figure.low_confidence:
        remark += " low confidence"
    if figure.spread is not None:
        remark += f" spread {100 * figure.spread:.1f} %"
    return label(name), _value(machine, name), str(figure.origin), figure.date, remark


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
