"""From all that was measured to the figures of a machine, each with how it was measured, when, and its spread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from redline.calibration.calibration_record import Calibration, Collectives, DeviceInfo, Estimate, why_not
from redline.calibration.memory import memory_bytes_per_s
from redline.errors import UnknownHardwareError
from redline.hardware import catalogue
from redline.hardware.machine import (
    BEST_MATMUL,
    DTYPES,
    LATENCY,
    LAW_COMPUTE,
    LAW_FIXED,
    LAW_MEMORY,
    PEAK,
    RATE,
    SUSTAINED_MATMUL,
    Figure,
    FigureSource,
    Machine,
    calibrated,
    split_usable,
)

_OVERHEADS = {"dispatch": "dispatch_ns", "launch": "launch_ns"}


def machine_of(calibration: Calibration) -> Machine:
    """The machine that was measured: its record in the catalogue, if it has one, with what was measured instead."""
    subject, base = calibration.subject, record_of(calibration.subject)
    figures = {name: replace(figure, date=calibration.date[:10]) for name, figure in _figures(calibration, base)}
    notes = tuple(_notes(calibration))
    if base is not None:
        return calibrated(base, f"{base.name} of {subject.host}", figures, notes=notes)
    usable, unusable = split_usable(figures)
    return Machine(name=subject.name, architecture=subject.kind, figures=usable, unusable=unusable, notes=notes)


def record_of(subject: DeviceInfo) -> Machine | None:
    """Its record in the catalogue, which has no CPUs."""
    if subject.kind == "cpu":
        return None
    try:
        return catalogue.match(subject.name, subject.memory_bytes, subject.multiprocessors)
    except UnknownHardwareError:
        return None


def _notes(calibration: Calibration) -> Iterator[str]:
    if calibration.partial:
        yield f"Partial: {calibration.partial} ended it after {calibration.seconds:.0f} s."
    if calibration.conditions.noisy:
        yield f"The machine was noisy while it was measured, by: {', '.join(calibration.conditions.noisy)}."


def _figures(calibration: Calibration, base: Machine | None) -> Iterator[tuple[str, Figure]]:
    if base is None:
        yield "memory_bytes", _figure(calibration.subject.memory_bytes, "as the system says")
    bandwidth = memory_bytes_per_s(calibration.bandwidths)
    if bandwidth is not None:
        how = "the fastest of copy, triad and sum of the largest arrays"
        yield "memory_bytes_per_s", _measured(bandwidth, how, why_not(bandwidth, calibration))
    yield from _peaks(calibration, base)
    yield from _laws(calibration)
    for point in calibration.overheads:
        if point.name in _OVERHEADS:
            why = why_not(point.time_ns, calibration, on_host=True)
            yield _OVERHEADS[point.name], _measured(point.time_ns, f"`{point.name}` of redline calibrate", why)
    transfers = [point for point in calibration.bandwidths if point.kind == "to_device_pinned"]
    if transfers:
        speed = max(transfers, key=lambda point: point.moved_bytes).bytes_per_s
        yield "pcie_bytes_per_s", _measured(speed, "copies of pinned memory to the device", why_not(speed, calibration))
    if calibration.collectives is not None:
        yield from _collectives(calibration.collectives, calibration)


def _peaks(calibration: Calibration, base: Machine | None) -> Iterator[tuple[str, Figure]]:
    """Where nobody published a peak, the best that was measured stands in for it, and says so."""
    for peak in calibration.peaks:
        if peak.dtype not in DTYPES:
            continue
        how, why = f"fastest of all matmuls: {peak.shape}", why_not(peak.burst_flops_per_s, calibration)
        yield f"{BEST_MATMUL}.{peak.dtype}", _measured(peak.burst_flops_per_s, how, why)
        if base is None or base.peak_flops_per_s(peak.dtype) is None:
            yield f"{PEAK}.{peak.dtype}", _measured(peak.burst_flops_per_s, f"no peak is published; {how}", why)
        if peak.sustained_flops_per_s is not None:
            how = f"the same matmul, after {peak.sustained_s / 2:.1f} s of it"
            why = why_not(peak.sustained_flops_per_s, calibration, is_series=True)
            yield f"{SUSTAINED_MATMUL}.{peak.dtype}", _measured(peak.sustained_flops_per_s, how, why)


def _laws(calibration: Calibration) -> Iterator[tuple[str, Figure]]:
    for law in calibration.laws:
        if law.dtype not in DTYPES:
            continue
        how = f"fit to {law.points} matmuls, {100 * law.error_median:.0f} % off for those it had not seen (median)"
        for name, constant in (
            (LAW_COMPUTE, law.compute_flops_per_s),
            (LAW_MEMORY, law.memory_bytes_per_s),
            (LAW_FIXED, law.fixed_ns),
        ):
            if constant.value > 0:
                yield f"{name}.{law.dtype}", _measured(constant, how, why_not(constant, calibration, is_series=True))


def _collectives(collectives: Collectives, calibration: Calibration) -> Iterator[tuple[str, Figure]]:
    """The levels that a planner asks for: inside a machine, and among machines."""
    levels = {"node": "node", "across": "across"}
    if collectives.hosts in {1, collectives.world}:
        levels = {"world": "node" if collectives.hosts == 1 else "across"}
    for law in collectives.laws:
        level = levels.get(law.group)
        if level is None:
            continue
        how = f"{collectives.backend}, {law.ranks} ranks; {100 * law.error_median:.0f} % off for unseen sizes (median)"
        for name, value in ((LATENCY, law.latency_ns), (RATE, law.bytes_per_s)):
            if value > 0:
                reach = value * law.error_median
                trusted = Estimate(value=value, low=value - reach, high=value + reach, samples=law.points)
                why = why_not(trusted, calibration, is_series=True)
                yield f"{name}.{level}.{law.operation}", _figure(value, how, spread=law.error_median, unusable=why)


def _measured(estimate: Estimate, how: str, unusable: str) -> Figure:
    return _figure(estimate.value, how, spread=round(estimate.reach, 4), unusable=unusable)


def _figure(value: float, how: str, spread: float | None = None, unusable: str = "") -> Figure:
    return Figure(value=value, source=how, date="", origin=FigureSource.CALIBRATED, spread=spread, unusable=unusable)
