"""The tables of a calibration, as cells: kernels, the matmul model, memory, overhead, loaders, collectives."""

from collections.abc import Iterable, Sequence
from math import log2

from redline.calibration.calibration_record import (
    BandwidthPoint,
    Calibration,
    CollectiveLaw,
    CollectivePoint,
    Collectives,
    Estimate,
    KernelPoint,
    Peak,
    rate,
)
from redline.calibration.memory import STREAMS
from redline.hardware import catalogue
from redline.hardware.machine import BEST_MATMUL, DTYPES, FIGURE_UNITS, PEAK, Figure, Machine, work_unit
from redline.report.calibrate import messages as say
from redline.report.document import ReportTable
from redline.report.figure_names import label as figure_label
from redline.report.language import _
from redline.report.text_parts import clipped, percent
from redline.units import format_buffer

MOST_SIZES = 7
_SHAPE_LIMIT = 30


def shown(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], notes: Sequence[str] = ()) -> ReportTable:
    return ReportTable(title=title, head=tuple(head), rows=tuple(map(tuple, rows)), notes=tuple(notes))


# --- compute ----------------------------------------------------------------------------------------------------------


def kernels(calibration: Calibration, machine: Machine) -> ReportTable:
    base = catalogue.record(machine.base)
    rows = [_peak_row(peak, base) for peak in calibration.peaks]
    rows += [_kernel_row(best) for best in _best(calibration.kernels, {peak.dtype for peak in calibration.peaks})]
    head = (_("kernel"), _("dtype"), _("best, in a burst"), _("shape"), _("sustained"), _("of peak"))
    notes = [_kernels_note(calibration.peaks)] if any(peak.sustained_flops_per_s for peak in calibration.peaks) else []
    notes += [_("of peak: share of the published peak of {name}").format(name=base.name)] if base else []
    return shown(_("compute"), head if base else head[:-1], (row if base else row[:-1] for row in rows), notes)


def _kernels_note(peaks: Sequence[Peak]) -> str:
    longest = max(peak.sustained_s for peak in peaks)
    return _("sustained: the second half of a {seconds:.0f} s run").format(seconds=longest)


def _peak_row(peak: Peak, base: Machine | None) -> tuple[str, ...]:
    unit = work_unit(peak.dtype)
    published = base.peak_flops_per_s(peak.dtype) if base and peak.dtype in DTYPES else None
    return (
        say.named(say.KERNELS, "matmul"),
        peak.dtype,
        say.figure(peak.burst_flops_per_s, unit),
        clipped(peak.shape, _SHAPE_LIMIT),
        say.figure(peak.sustained_flops_per_s, unit),
        "-" if published is None else percent(peak.burst_flops_per_s.value / published.value),
    )


def _kernel_row(point: KernelPoint) -> tuple[str, ...]:
    return (
        say.named(say.KERNELS, point.family),
        point.dtype,
        say.figure(point.flops_per_s, work_unit(point.dtype)),
        clipped(point.shape, _SHAPE_LIMIT),
        "-",
        "-",
    )


def _best(points: Sequence[KernelPoint], with_peak: set[str]) -> list[KernelPoint]:
    """The fastest of each family and type, but of matmuls whose peak was looked for."""
    kernel_points: dict[tuple[str, str], KernelPoint] = {}
    for point in points:
        if point.family == "matmul" and point.dtype in with_peak:
            continue
        key = point.family, point.dtype
        if key not in kernel_points or point.flops_per_s.value > kernel_points[key].flops_per_s.value:
            kernel_points[key] = point
    return list(kernel_points.values())


def laws(calibration: Calibration, *, verbose: bool) -> ReportTable:
    head = (_("dtype"), _("compute roof"), _("memory roof"), _("fixed time"), _("error"), _("p90"), _("shapes"))
    shown_columns = len(head) if verbose else len(head) - 2
    rows = (
        (
            law.dtype,
            say.figure(law.compute_flops_per_s, work_unit(law.dtype)),
            say.figure(law.memory_bytes_per_s, "B/s"),
            say.figure(law.fixed_ns, "ns"),
            percent(law.error_median),
            percent(law.error_p90),
            str(law.points),
        )[:shown_columns]
        for law in calibration.laws
    )
    title = _("matmul model: max(FLOPs / compute roof, bytes / memory roof) + fixed time")
    return shown(title, head[:shown_columns], rows, [_("error: median over held-out shapes")])


# --- memory -----------------------------------------------------------------------------------------------------------


def bandwidths(calibration: Calibration, *, verbose: bool) -> ReportTable:
    """By size, so that caches are seen."""
    points = [point for point in calibration.bandwidths if point.kind in STREAMS]
    kinds = [kind for kind in STREAMS if any(point.kind == kind for point in points)]
    by_place = {(round(log2(max(point.working_bytes, 1))), point.kind): point for point in points}
    places = sorted({place for place, _kind in by_place})
    rows = (
        (
            format_buffer(next(by_place[place, kind].working_bytes for kind in kinds if (place, kind) in by_place)),
            *(_speed(by_place.get((place, kind))) for kind in kinds),
        )
        for place in (places if verbose else spread_out(places, MOST_SIZES))
    )
    head = (_("working set"), *(say.named(say.MOVEMENTS, kind) for kind in kinds))
    return shown(_("memory bandwidth by size"), head, rows)


def _speed(point: BandwidthPoint | None) -> str:
    return "-" if point is None else say.figure(point.bytes_per_s, "B/s")


def spread_out(places: Sequence[int], most: int) -> list[int]:
    """At most so many of them: the first, the last, and some evenly between."""
    if len(places) <= most:
        return list(places)
    return [places[round(number * (len(places) - 1) / (most - 1))] for number in range(most)]


def movements(calibration: Calibration) -> ReportTable:
    """Allocation at each size, and transfers at the largest."""
    allocated = [point for point in calibration.bandwidths if point.kind == "allocate"]
    moved: dict[str, BandwidthPoint] = {}
    for point in calibration.bandwidths:
        if point.kind not in (*STREAMS, "allocate"):
            moved[point.kind] = max(moved.get(point.kind, point), point, key=lambda other: other.working_bytes)
    rows = [
        *((*_movement(point), "-") for point in allocated),
        *((*_movement(point), say.figure(point.bytes_per_s, "B/s")) for point in moved.values()),
    ]
    return shown(_("allocation and transfers"), (_("what"), _("size"), _("time"), _("bandwidth")), rows)


def _movement(point: BandwidthPoint) -> tuple[str, str, str]:
    return (
        say.named(say.MOVEMENTS, point.kind),
        format_buffer(point.working_bytes),
        say.figure(point.time_ns, "ns"),
    )


# --- overhead ---------------------------------------------------------------------------------------------------------


def overheads(calibration: Calibration) -> ReportTable:
    rows = (
        (
            say.named(say.OVERHEADS, point.name),
            say.figure(point.time_ns, "ns"),
            f"{1e9 / point.time_ns.value:,.0f}" if point.time_ns.value else "-",
        )
        for point in calibration.overheads
    )
    return shown(_("overhead"), (_("what"), _("time"), _("per second")), rows)


def loaders(calibration: Calibration) -> ReportTable:
    rows = (
        (
            str(loader_point.workers),
            _("yes") if loader_point.pinned else "-",
            format_buffer(loader_point.batch_bytes),
            say.figure(loader_point.batch_time_ns, "ns"),
            say.figure(loader_point.bytes_per_s, "B/s"),
        )
        for loader_point in calibration.loaders
    )
    head = (_("workers"), _("pinned"), _("batch"), _("time of a batch"), _("rate"))
    return shown(_("data loader, with a dataset that costs nothing"), head, rows)


def doublings(calibration: Calibration) -> ReportTable:
    rows = (
        (
            str(doubling.batch),
            say.figure(doubling.time_ns, "ns"),
            say.figure(doubling.doubled_time_ns, "ns"),
            f"{doubling.ratio:.2f}",
        )
        for doubling in calibration.doublings
    )
    return shown(_("doubling"), (_("batch"), _("time"), _("time at twice the batch"), _("ratio")), rows)


# --- collectives ------------------------------------------------------------------------------------------------------


_IN_SUBGROUPS = "all_reduce"  # the one operation that says most about a subgroup


def collectives(measured: Collectives, *, verbose: bool) -> ReportTable:
    """One row for each operation and group: the law, and the bandwidth at the largest size."""
    largest: dict[tuple[str, str, int], CollectivePoint] = {}
    for point in measured.points:
        key = point.operation, point.group, point.ranks
        largest[key] = max(largest.get(key, point), point, key=lambda other: other.size_bytes)
    laws = {(law.operation, law.group, law.ranks): law for law in measured.laws}
    wrong = {(point.operation, point.group, point.ranks) for point in measured.points if not point.correct}
    rows = [
        _collective_row(point, laws.get(key), is_right=key not in wrong)
        for key, point in largest.items()
        if verbose or point.group == "world" or point.operation == _IN_SUBGROUPS
    ]
    head = (
        _("operation"),
        _("among"),
        _("ranks"),
        _("latency"),
        _("bus bandwidth"),
        _("at"),
        _("error"),
        _("results"),
    )
    notes = [_("latency and error (at held-out sizes) are those of the fit: latency + size / rate")]
    if len(rows) < len(largest):
        notes.append(_("other operations in subgroups: see the page (-o machine.html) or the profile"))
    return shown(_("collectives"), head, rows, notes)


def _collective_row(point: CollectivePoint, law: CollectiveLaw | None, *, is_right: bool) -> tuple[str, ...]:
    moves = point.size_bytes > 0 and point.bus_bytes_per_s > 0
    return (
        clipped(point.operation, 20),
        say.named(say.GROUPS, point.group),
        str(point.ranks),
        say.amount(law.latency_ns, "ns") if law else "-" if moves else say.figure(point.time_ns, "ns"),
        say.figure(bus_bandwidth(point), "B/s") if moves else "-",
        format_buffer(point.size_bytes) if moves else "-",
        percent(law.error_median) if law else "-",
        _("correct") if is_right else _("WRONG"),
    )


def bus_bandwidth(point: CollectivePoint) -> Estimate:
    """With the interval of the time."""
    return rate(point.bus_bytes_per_s * point.time_ns.value / 1e9, point.time_ns)


def ranks(measured: Collectives) -> ReportTable:
    rows = (
        (
            str(rank.rank),
            clipped(rank.host, 40),
            clipped(rank.device, 40),
            say.figure(rank.work_ns, "ns"),
            f"{rank.ratio:.2f}",
            _("slow") if rank.slow else "",
        )
        for rank in measured.ranks
    )
    head = (_("rank"), _("host"), _("device"), _("time for the same work"), _("vs median"), "")
    return shown(_("ranks"), head, rows)


def pairs(measured: Collectives) -> ReportTable:
    rows = (
        (
            f"{pair_speed.first} - {pair_speed.second}",
            say.named(say.GROUPS, pair_speed.level),
            say.amount(pair_speed.latency_ns, "ns"),
            f"{pair_speed.latency_ratio:.2f}",
            say.amount(pair_speed.bytes_per_s, "B/s"),
            f"{pair_speed.bandwidth_ratio:.2f}",
            _("slow") if pair_speed.slow else "",
        )
        for pair_speed in sorted(
            measured.pairs, key=lambda pair_speed: (not pair_speed.slow, pair_speed.bandwidth_ratio)
        )
    )
    head = (_("ranks"), _("among"), _("latency"), _("vs median"), _("bandwidth"), _("vs median"), "")
    return shown(_("pairs"), head, rows)


# --- the catalogue ----------------------------------------------------------------------------------------------------


def against_catalogue(machine: Machine) -> ReportTable | None:
    """Published figures beside measured ones; None where the catalogue does not have the machine."""
    base = catalogue.record(machine.base)
    if base is None:
        return None
    rows = [
        _against(name, base.figures[name], figure)
        for name, figure in ((name, machine.figures.get(name)) for name in FIGURE_UNITS)
        if name in base.figures and figure is not None and figure is not base.figures[name]
    ]
    rows += [
        _against(f"{PEAK}.{dtype}", published, measured)
        for dtype in DTYPES
        if (published := base.peak_flops_per_s(dtype)) is not None
        and (measured := machine.best_matmul_flops_per_s(dtype)) is not None
        and measured is not base.figures.get(f"{BEST_MATMUL}.{dtype}")
    ]
    head = (_("figure"), _("catalogue"), _("measured"), _("ratio"))
    note = _("peaks are compared with the best measured matmul")
    return shown(_("catalogue {name} and this machine").format(name=base.name), head, rows, [note])


def _against(name: str, published: Figure, measured: Figure) -> tuple[str, ...]:
    unit = FIGURE_UNITS[name]
    spread = "" if measured.spread is None else f" ±{100 * measured.spread:.1f} %"
    return (
        figure_label(name),
        say.amount(published.value, unit),
        say.amount(measured.value, unit) + spread,
        percent(measured.value / published.value),
    )
