"""The data of each chart of a calibration as plain values. How they are drawn is the business of charts.js."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from redline.calibration.calibration_record import (
    BandwidthPoint,
    Calibration,
    CollectivePoint,
    Collectives,
    Estimate,
    IntensityPoint,
    KernelPoint,
    rate,
)
from redline.calibration.collectives.collective_law import ring_time_ns
from redline.calibration.memory import STREAMS, memory_bytes_per_s
from redline.hardware.machine import work_unit
from redline.report.calibrate import messages as say
from redline.report.calibrate.tables import bus_bandwidth
from redline.report.language import _
from redline.report.text_parts import clipped
from redline.units import format_buffer

_NAME_LIMIT = 60
_LABEL_LIMIT = 28

ChartData = dict[str, Any]
Mark = dict[str, Any]  # a point with its interval; its name is beside it, where its series has none


def _mark(x: float, estimate: Estimate, text: str, name: str = "") -> Mark:
    low, value, high = (_digits(number) for number in (estimate.low, estimate.value, estimate.high))
    return {"x": _digits(x), "y": value, "low": low, "high": high, "text": text, "name": name}


def _digits(value: float) -> float:
    """Five are more than a chart can show."""
    return float(f"{value:.5g}")


# --- roofline ---------------------------------------------------------------------------------------------------------


def roofs_figure(calibration: Calibration) -> ChartData | None:
    """Kernels by intensity (FLOP per byte) and rate (FLOP/s) under the measured roofs, and the experiment's points.

    None where neither was measured.
    """
    roofline = calibration.roofline
    if not calibration.kernels and roofline is None:
        return None
    bandwidth = memory_bytes_per_s(calibration.bandwidths) or (roofline.bandwidth_bytes_per_s if roofline else None)
    return {
        "kernels": _kernels(calibration.kernels),
        "peaks": [
            {
                "name": f"{peak.dtype} {say.amount(peak.burst_flops_per_s.value, work_unit(peak.dtype))}",
                "value": _digits(peak.burst_flops_per_s.value),
            }
            for peak in calibration.peaks
        ],
        "bytes_per_s": _digits(bandwidth.value) if bandwidth else None,
        "bandwidth": say.amount(bandwidth.value, "B/s") if bandwidth else "",
        "experiment": [_intensity(point) for point in roofline.points] if roofline else [],
        "experiment_name": f"{roofline.dtype}, {clipped(roofline.method, _NAME_LIMIT)}" if roofline else "",
        "ridge": _ridge(calibration),
    }


def _kernels(points: Sequence[KernelPoint]) -> list[ChartData]:
    groups: dict[tuple[str, str], list[Mark]] = {}
    for point in points:
        if point.bytes:
            groups.setdefault((point.dtype, point.family), []).append(_kernel(point))
    return [
        {"dtype": dtype, "family": family, "family_name": say.named(say.KERNELS, family), "marks": marks}
        for (dtype, family), marks in groups.items()
    ]


def _kernel(point: KernelPoint) -> Mark:
    about = f"{say.named(say.KERNELS, point.family)} {clipped(point.shape, _NAME_LIMIT)}, {point.dtype}"
    rate_text = say.figure(point.flops_per_s, work_unit(point.dtype))
    text = f"{about}\n{rate_text}\n{say.figure(point.time_ns, 'ns')}"
    return _mark(point.flops / point.bytes, point.flops_per_s, text, clipped(point.shape, _LABEL_LIMIT))


def _intensity(point: IntensityPoint) -> Mark:
    flops_per_s = rate(point.flops, point.time_ns)
    about = say.amount(point.flops_per_byte, "FLOP/byte")
    text = f"{about}\n{say.figure(flops_per_s, 'FLOP/s')}\n{say.figure(point.time_ns, 'ns')}"
    return _mark(point.flops_per_byte, flops_per_s, text)


def _ridge(calibration: Calibration) -> Mark | None:
    roofline = calibration.roofline
    if roofline is None:
        return None
    text = "\n".join([_("ridge"), say.figure(roofline.ridge_flops_per_byte, "FLOP/byte")])
    return _mark(roofline.ridge_flops_per_byte.value, roofline.peak_flops_per_s, text)


# --- memory -----------------------------------------------------------------------------------------------------------


def bandwidths_figure(calibration: Calibration) -> ChartData | None:
    """Bandwidth (bytes/s) by working set (bytes)."""
    curves = []
    for kind in STREAMS:
        points = sorted(
            (point for point in calibration.bandwidths if point.kind == kind),
            key=lambda bandwidth_point: bandwidth_point.working_bytes,
        )
        if points:
            curves.append({"name": say.named(say.MOVEMENTS, kind), "marks": [_bandwidth(point) for point in points]})
    return {"curves": curves} if curves else None


def _bandwidth(point: BandwidthPoint) -> Mark:
    about = f"{say.named(say.MOVEMENTS, point.kind)}, {format_buffer(point.working_bytes)}"
    text = f"{about}\n{say.figure(point.bytes_per_s, 'B/s')}"
    return _mark(point.working_bytes, point.bytes_per_s, text)


# --- sustained --------------------------------------------------------------------------------------------------------


def sustained_figure(calibration: Calibration) -> ChartData | None:
    """Rate by seconds under load, in percent of the burst, so that types can be compared."""
    curves = []
    for peak in calibration.peaks:
        burst = peak.burst_flops_per_s.value
        rates = [(second, flops, _digits(100 * flops / burst)) for second, flops in peak.curve]
        marks = [
            {
                **dict.fromkeys(("x", "y", "low", "high"), share),
                "x": _digits(second),
                "text": f"{peak.dtype}, {second:.1f} s\n{say.amount(flops, work_unit(peak.dtype))}",
                "name": "",
            }
            for second, flops, share in rates
        ]
        if len(marks) > 1:
            curves.append({"name": peak.dtype, "marks": marks})
    return {"curves": curves} if curves else None


# --- collectives ------------------------------------------------------------------------------------------------------


def bus_figure(collectives: Collectives | None) -> ChartData | None:
    """Bus bandwidth (bytes/s) by size (bytes), with that of the ring model; None where no size was measured."""
    if collectives is None:
        return None
    pair = pair_law(collectives)
    operations = dict.fromkeys(point.operation for point in collectives.points if point.group == "world")
    curves = []
    for operation in operations:
        points = sorted(
            (
                point
                for point in collectives.points
                if point.operation == operation and point.group == "world" and _moves(point)
            ),
            key=lambda point: point.size_bytes,
        )
        if points:
            ring = [_ring(point, pair) for point in points] if pair else []
            curves.append({"name": clipped(operation, 40), "marks": [_bus(point) for point in points], "ring": ring})
    return {"curves": curves} if curves else None


def _moves(point: CollectivePoint) -> bool:
    return point.size_bytes > 0 and point.bus_bytes_per_s > 0 and point.algorithm_bytes_per_s > 0


def pair_law(collectives: Collectives) -> tuple[float, float] | None:
    """Latency in ns and rate of a message between two ranks: of all ranks at once, else of the median pair alone."""
    laws = [law for law in collectives.laws if law.operation == "send_recv" and law.group == "world"]
    if laws:
        return laws[0].latency_ns, laws[0].bytes_per_s
    if not collectives.pairs:
        return None
    return median(pair_speed.latency_ns for pair_speed in collectives.pairs), median(
        pair_speed.bytes_per_s for pair_speed in collectives.pairs
    )


def _ring(point: CollectivePoint, pair: tuple[float, float]) -> list[float]:
    time_ns = ring_time_ns(point.operation, point.ranks, point.size_bytes, *pair)
    factor = point.bus_bytes_per_s / point.algorithm_bytes_per_s
    return [float(point.size_bytes), _digits(point.size_bytes / time_ns * 1e9 * factor)]


def _bus(point: CollectivePoint) -> Mark:
    about = f"{clipped(point.operation, 40)}, {format_buffer(point.size_bytes)}"
    text = f"{about}\n{say.figure(point.time_ns, 'ns')}\n{say.figure(bus_bandwidth(point), 'B/s')}"
    return _mark(point.size_bytes, bus_bandwidth(point), text)
