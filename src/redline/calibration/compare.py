"""Two calibrations side by side, of two machines or two days: which figures differ by more than their intervals."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from math import inf, isfinite

from redline.calibration.calibration_record import Calibration, CollectiveLaw, Collectives, Estimate, Law, rate
from redline.calibration.memory import memory_bytes_per_s
from redline.hardware.machine import work_unit
from redline.units import format_buffer


class ComparisonVerdict(StrEnum):
    """What the second calibration says beside the first."""

    SAME = "same"  # the intervals overlap
    FASTER = "faster"
    SLOWER = "slower"
    DIFFERENT = "different"  # of a figure that is neither better nor worse where it is higher


@dataclass(frozen=True, kw_only=True)
class CalibrationFigure:
    """One figure of a calibration."""

    family: str  # one of `record.FAMILIES`
    quantity: str  # what it is, such as best_matmul; with `of`, its name
    of: str  # which one: a type of number, a shape, a size
    unit: str
    estimate: Estimate
    is_main: bool  # whether it is a figure to plan with rather than one point of a curve

    @property
    def name(self) -> tuple[str, str]:
        return self.quantity, self.of


@dataclass(frozen=True, kw_only=True)
class Row:
    """A figure that both calibrations have."""

    family: str
    quantity: str
    of: str
    unit: str
    is_main: bool
    first: Estimate
    second: Estimate
    verdict: ComparisonVerdict

    @property
    def ratio(self) -> float:
        """Of the second value to the first; infinite where the first is nothing beside the second."""
        return self.second.value / self.first.value if self.first.value else inf

    @property
    def finite_ratio(self) -> float | None:
        """None where there is none to be shown."""
        return self.ratio if isfinite(self.ratio) else None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What two calibrations have in common, and what only one has."""

    first: Calibration
    second: Calibration
    rows: tuple[Row, ...]
    only_first: tuple[CalibrationFigure, ...]
    only_second: tuple[CalibrationFigure, ...]


_LOWER_IS_BETTER = frozenset({"ns"})
_NEITHER_IS_BETTER = frozenset({"FLOP/byte"})


def compare(first: Calibration, second: Calibration) -> Comparison:
    """The figures of both by name. Where the intervals overlap, they are the same as far as was measured."""
    in_first, in_second = ({figure.name: figure for figure in figures(side)} for side in (first, second))
    return Comparison(
        first=first,
        second=second,
        rows=tuple(_row(figure, in_second[name]) for name, figure in in_first.items() if name in in_second),
        only_first=tuple(figure for name, figure in in_first.items() if name not in in_second),
        only_second=tuple(figure for name, figure in in_second.items() if name not in in_first),
    )


def _row(first: CalibrationFigure, second: CalibrationFigure) -> Row:
    return Row(
        family=first.family,
        quantity=first.quantity,
        of=first.of,
        unit=first.unit,
        is_main=first.is_main or second.is_main,
        first=first.estimate,
        second=second.estimate,
        verdict=verdict_of(first.estimate, second.estimate, first.unit),
    )


def verdict_of(first: Estimate, second: Estimate, unit: str) -> ComparisonVerdict:
    if first.low <= second.high and second.low <= first.high:
        return ComparisonVerdict.SAME
    if unit in _NEITHER_IS_BETTER:
        return ComparisonVerdict.DIFFERENT
    is_higher = second.value > first.value
    return ComparisonVerdict.FASTER if is_higher != (unit in _LOWER_IS_BETTER) else ComparisonVerdict.SLOWER


# --- all figures of a calibration -------------------------------------------------------------------------------------


def figures(calibration: Calibration) -> Iterator[CalibrationFigure]:
    yield from _compute(calibration)
    yield from _memory(calibration)
    yield from _overhead(calibration)
    yield from _roofline(calibration)
    if calibration.collectives is not None:
        yield from _collectives(calibration.collectives)


def _compute(calibration: Calibration) -> Iterator[CalibrationFigure]:
    for peak in calibration.peaks:
        unit = work_unit(peak.dtype)
        yield _main("compute", "best_matmul", peak.dtype, unit, peak.burst_flops_per_s)
        if peak.sustained_flops_per_s is not None:
            yield _main("compute", "sustained_matmul", peak.dtype, unit, peak.sustained_flops_per_s)
    for law in calibration.laws:
        yield from _law(law)
    for kernel in calibration.kernels:
        of = f"{kernel.dtype} {kernel.shape}"
        yield _point("compute", kernel.family, of, work_unit(kernel.dtype), kernel.flops_per_s)


def _law(law: Law) -> Iterator[CalibrationFigure]:
    yield _main("compute", "law_compute", law.dtype, work_unit(law.dtype), law.compute_flops_per_s)
    yield _main("compute", "law_memory", law.dtype, "B/s", law.memory_bytes_per_s)
    yield _main("compute", "law_fixed", law.dtype, "ns", law.fixed_ns)


def _memory(calibration: Calibration) -> Iterator[CalibrationFigure]:
    """Machines with other caches have other largest sizes; the bandwidth beyond them can be compared all the same."""
    beyond = memory_bytes_per_s(calibration.bandwidths)
    if beyond is not None:
        yield _main("memory", "memory_bandwidth", "", "B/s", beyond)
    largest: dict[str, int] = {}
    for point in calibration.bandwidths:
        largest[point.kind] = max(largest.get(point.kind, 0), point.working_bytes)
    for point in calibration.bandwidths:
        size = format_buffer(point.working_bytes)
        made = _main if point.working_bytes == largest[point.kind] else _point
        if point.kind == "allocate":
            yield made("memory", "allocate", size, "ns", point.time_ns)
        else:
            yield made("memory", point.kind, size, "B/s", point.bytes_per_s)


def _overhead(calibration: Calibration) -> Iterator[CalibrationFigure]:
    for point in calibration.overheads:
        yield _main("overhead", point.name, "", "ns", point.time_ns)
    for loader in calibration.loaders:
        pinned = " pinned" if loader.pinned else ""
        of = f"{loader.workers}{pinned} {format_buffer(loader.batch_bytes)}"
        yield _main("overhead", "loader", of, "ns", loader.batch_time_ns)
    for doubling in calibration.doublings:
        yield _point("overhead", "step_of_batch", str(doubling.batch), "ns", doubling.time_ns)


def _roofline(calibration: Calibration) -> Iterator[CalibrationFigure]:
    roofline = calibration.roofline
    if roofline is None:
        return
    yield _main("roofline", "ridge", roofline.dtype, "FLOP/byte", roofline.ridge_flops_per_byte)
    yield _main("roofline", "flat_bandwidth", roofline.dtype, "B/s", roofline.bandwidth_bytes_per_s)
    yield _main("roofline", "linear_peak", roofline.dtype, work_unit(roofline.dtype), roofline.peak_flops_per_s)
    for point in roofline.points:
        of = f"{roofline.dtype} {point.flops_per_byte:g}"
        yield _point("roofline", "intensity", of, work_unit(roofline.dtype), rate(point.flops, point.time_ns))


def _collectives(collectives: Collectives) -> Iterator[CalibrationFigure]:
    for law in collectives.laws:
        yield _main("collectives", "latency", _of(law), "ns", _as_wide_as_its_error(law.latency_ns, law))
        yield _main("collectives", "rate", _of(law), "B/s", _as_wide_as_its_error(law.bytes_per_s, law))
    for point in collectives.points:
        of = f"{point.operation} {point.group} {point.ranks} {format_buffer(point.size_bytes)}"
        yield _point("collectives", "collective_time", of, "ns", point.time_ns)
    for rank in collectives.ranks:
        yield _point("collectives", "rank_work", str(rank.rank), "ns", rank.work_ns)


def _of(law: CollectiveLaw) -> str:
    return f"{law.operation} {law.group} {law.ranks}"


def _as_wide_as_its_error(value: float, law: CollectiveLaw) -> Estimate:
    """A fitted constant has no repetitions; it is trusted as far as the fit predicts."""
    reach = abs(value) * law.error_median
    return Estimate(value=value, low=value - reach, high=value + reach, samples=law.points)


def _main(family: str, quantity: str, of: str, unit: str, estimate: Estimate) -> CalibrationFigure:
    return CalibrationFigure(family=family, quantity=quantity, of=of, unit=unit, estimate=estimate, is_main=True)


def _point(family: str, quantity: str, of: str, unit: str, estimate: Estimate) -> CalibrationFigure:
    return CalibrationFigure(family=family, quantity=quantity, of=of, unit=unit, estimate=estimate, is_main=False)
