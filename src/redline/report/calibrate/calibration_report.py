"""A calibration as text and as a page: what the machine reached, how sure that is, and under which conditions."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from redline.calibration.calibration_record import (
    Calibration,
    CollectivePoint,
    Collectives,
    Declined,
    Estimate,
    Peak,
    why_not,
)
from redline.calibration.memory import memory_bytes_per_s
from redline.hardware.machine import BEST_MATMUL, DTYPES, FIGURE_UNITS, Machine, too_wide, work_unit
from redline.report.calibrate import figures, tables
from redline.report.calibrate import messages as say
from redline.report.display import Style
from redline.report.document import (
    Block,
    Chart,
    Document,
    Fact,
    Heading,
    Items,
    LabelledLines,
    PageBlock,
    PageDocument,
    Paragraph,
    ReportTable,
    Section,
    titled,
)  # fmt: skip
from redline.report.figure_names import label, label_of, why_unusable
from redline.report.language import _, clauses, listed, marked
from redline.report.text_parts import capital, clipped
from redline.units import format_buffer

_MOST_FACTS = 6
_MOST_REASONS = 4  # and as many figures with each


def document_of(calibration: Calibration, machine: Machine) -> Document:
    facts = (
        (_("software"), say.software(calibration.subject)),
        (_("samples"), say.samples(calibration)),
        (_("noise"), say.noise(calibration.conditions)),
        (_("unusable"), unusable(machine)),
    )
    experiments = ((_("doubling"), say.doubling(calibration)), (_("roofline"), say.ridge(calibration)))
    troubles = tuple(say.troubles(calibration.collectives))
    declined = tuple(map(say.declined, _declined(calibration)))
    return Document(
        blocks=(
            (Heading(text=say.headline(calibration)), LabelledLines(lines=facts, indent="  ")),
            Items(title=_("what is wrong"), items=troubles, mark="  ! ", style=Style.ERROR),
            tables.kernels(calibration, machine),
            tables.laws(calibration, verbose=False),
            tables.bandwidths(calibration, verbose=False),
            tables.movements(calibration),
            tables.overheads(calibration),
            tables.loaders(calibration),
            LabelledLines(title=_("experiments"), lines=experiments, indent="  "),
            tuple(_collectives(calibration.collectives)),
            Items(title=_("not measured"), items=declined, mark="  - ", is_faint=True),
        )
    )


def _collectives(measured: Collectives | None) -> Iterator[Block]:
    if measured is None:
        return
    shown = tables.collectives(measured, verbose=False)
    title = _("{what}: {why}").format(what=shown.title, why=say.group_of_processes(measured))
    yield replace(shown, title=title) if shown.rows else Items(items=(title,), mark="")
    if not list(say.troubles(measured)):
        yield Items(items=(say.health(measured),))


def _declined(calibration: Calibration) -> tuple[Declined, ...]:
    collectives = calibration.collectives
    return (*calibration.declined, *(collectives.declined if collectives else ()))


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
    told += [say.more(rest)] if rest else []
    text = _("{told}. `redline diagnose` and `redline plan` do not use them. Calibrate again on a quiet machine.")
    return text.format(told=clauses(told))


def _named_with(names: Sequence[str], why: str) -> str:
    more = [say.more(len(names) - _MOST_REASONS)] if len(names) > _MOST_REASONS else []
    return _("{what}: {why}").format(what=listed([*names[:_MOST_REASONS], *more]), why=why_unusable(why))


# --- the page ---------------------------------------------------------------------------------------------------------


def page_of(calibration: Calibration, machine: Machine) -> PageDocument:
    return PageDocument(
        title=clipped(machine.name, 80),
        headline=_headline(calibration),
        said=(say.headline(calibration), *([_("Synthetic: made up, not measured.")] if machine.synthetic else [])),
        facts=tuple(_facts(calibration))[:_MOST_FACTS],
        sections=tuple(_sections(calibration, machine)),
        drawers=("calibrate_charts.js",),
        words=script_messages(),
    )


def _sections(calibration: Calibration, machine: Machine) -> Iterator[Section]:
    collectives = calibration.collectives
    troubles = tuple(say.troubles(collectives))
    noise, unused = say.noise(calibration.conditions), unusable(machine)
    unused = say.not_usable(unused) if unused else ""
    wrong = (Items(items=troubles, style=Style.ERROR),) if troubles else ()
    yield Section(
        name="troubles",
        title=capital(_("what is wrong")) if troubles else "",
        blocks=(*wrong, *_said(noise, unused)),
        style="panel warning",
    )
    roofs = _(
        "Each kernel by arithmetic intensity and rate; the lines are the best that this machine reached. A kernel "
        "above the sloped line has its data in a cache."
    )
    roofline = _chart("roofs", figures.roofs_figure(calibration), roofs, say.ridge(calibration))
    yield _section("roofline", roofline)
    load = _(
        "The rate of the best matmul while nothing else runs, in percent of the burst rate: a drop means lower clocks "
        "or other load."
    )
    compute = _shown(
        kernels=tables.kernels(calibration, machine),
        laws=tables.laws(calibration, verbose=True),
    )
    under_load = _chart("sustained", figures.sustained_figure(calibration), load, title=_("Under load"))
    yield _section("compute", [*compute, *under_load] if compute else [])
    sizes = _(
        "Bandwidth by total array size. Each drop is the end of a cache level; the right end is memory. Bars are "
        "intervals."
    )
    moved = _shown(bandwidths=tables.bandwidths(calibration, verbose=True), movements=tables.movements(calibration))
    course = _chart("bandwidths", figures.bandwidths_figure(calibration), sizes)
    yield _section("memory", [*course, *moved] if moved else [])
    costs = _shown(
        overheads=tables.overheads(calibration),
        loaders=tables.loaders(calibration),
        doublings=tables.doublings(calibration),
    )
    yield _section("overhead", [*_said(say.doubling(calibration)), *costs])
    if collectives is not None:
        yield _section("collectives", _page_collectives(collectives))
    yield Section(name="catalogue", link=_("Catalogue"), title=_("Catalogue"), blocks=_against(machine))
    yield Section(name="conditions", link=_("Conditions"), title=_("Conditions"), blocks=_conditions(calibration))
    yield Section(
        name="definitions",
        title=_("How each number is defined"),
        blocks=(LabelledLines(lines=tuple((_(term), _(text)) for term, text in _DEFINITIONS)),),
    )


def _section(family: str, blocks: Iterable[PageBlock]) -> Section:
    blocks, title = tuple(blocks), capital(say.named(say.FAMILIES, family))
    return Section(name=family, link=title if blocks else "", title=title, blocks=blocks)


def _said(*texts: str) -> list[Paragraph]:
    return [Paragraph(text=text) for text in texts if text]


def _chart(name: str, data: figures.ChartData | None, about: str, after: str = "", title: str = "") -> list[PageBlock]:
    """The chart, and what follows from it; nothing where nothing was measured."""
    return [] if data is None else [Chart(name=name, data=data, title=title, about=about), *_said(after)]


def _shown(**named: ReportTable) -> list[ReportTable]:
    return [shown for name, table in named.items() for shown in titled(name, table.title, table)]


def _page_collectives(collectives: Collectives) -> Iterator[PageBlock]:
    yield from _said(say.group_of_processes(collectives))
    if not list(say.troubles(collectives)):
        yield from _said(say.health(collectives))
    about = _("Bus bandwidth by size over all ranks; the dashed line is what a ring of the measured links would reach.")
    yield from _chart("bus", figures.bus_figure(collectives), about)
    yield from _shown(
        collectives=tables.collectives(collectives, verbose=True),
        ranks=tables.ranks(collectives),
        pairs=tables.pairs(collectives),
    )


def _against(machine: Machine) -> tuple[PageBlock, ...]:
    table = tables.against_catalogue(machine)
    if table is not None:
        return tuple(_shown(catalogue=table))
    text = _(
        "The catalogue of published figures has no record of this machine (it has no CPUs), so there is nothing to "
        "compare with. Where a peak is needed, the best measured rate is used."
    )
    return (Paragraph(text=text),)


def _conditions(calibration: Calibration) -> tuple[PageBlock, ...]:
    declined = tuple(map(say.declined, _declined(calibration)))
    about = LabelledLines(lines=tuple(_about(calibration)))
    return (about, *([Items(title=capital(_("not measured")), items=declined)] if declined else []))


def _headline(calibration: Calibration) -> str:
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
        yield _fact(
            label(f"{BEST_MATMUL}.{peak.dtype}"), peak.burst_flops_per_s, work_unit(peak.dtype), clipped(peak.shape, 40)
        )
    memory = memory_bytes_per_s(calibration.bandwidths)
    if memory is not None and not why_not(memory, calibration):
        yield _fact(_("memory bandwidth"), memory, "B/s")
    roofline = calibration.roofline
    if roofline is not None and not why_not(roofline.ridge_flops_per_byte, calibration):
        yield _fact(
            _("ridge"), roofline.ridge_flops_per_byte, "", _("FLOP per byte in {dtype}").format(dtype=roofline.dtype)
        )
    for point in calibration.overheads:
        if point.name in ("launch", "dispatch") and not why_not(point.time_ns, calibration, on_host=True):
            yield _fact(label_of(f"{point.name}_ns"), point.time_ns, "ns")
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
    yield _("host"), clipped(subject.host, 80)
    yield _("memory"), format_buffer(subject.memory_bytes)
    yield _("software"), say.software(subject)
    yield _("samples"), say.samples(calibration)
    yield _("noise"), say.noise(calibration.conditions)


def script_messages() -> dict[str, str]:
    return {
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


# --- definitions ------------------------------------------------------------------------------------------------------


_DEFINITIONS: Sequence[tuple[str, str]] = (
    (
        marked("interval"),
        marked(
            "Everything is timed several times, in separate passes. The value is the median; ± is the larger "
            "half of its 95 % confidence interval, widened to cover the medians of all passes and the "
            "variation of a short reference benchmark."
        ),
    ),
    (
        marked("best, in a burst"),
        marked(
            "The fastest sample over all shapes: what is possible without interference. Published peaks are "
            "rarely reached."
        ),
    ),
    (
        marked("copy, triad, sum"),
        marked(
            "a = b; a = b + s c; and the sum of an array. Bytes are those the program reads and writes; "
            "extra cache fills are not counted."
        ),
    ),
    (
        marked("ridge"),
        marked(
            "The FLOPs per byte at which a loop turns from memory-bound to compute-bound. The experiment "
            "does more and more multiplications on the same bytes: its time is flat at first, then grows."
        ),
    ),
    (
        marked("bus bandwidth"),
        marked(
            "By the convention of nccl-tests: size / time, times what the busiest link carries, 2 (n - 1) / "
            "n for an all-reduce over n ranks. It is comparable with the link speed for any number of ranks."
        ),
    ),
    (
        marked("slow"),
        marked(
            "A rank or link that is further behind the others than they differ among themselves. It slows "
            "down every job that uses it."
        ),
    ),
)
