"""From all that was measured to the figures of a machine, each with how it was measured, when, and its spread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

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
    Machine,
    Origin,
    calibrated,
)
from redline.probes.memory import memory_bytes_per_s
from redline.probes.record import Calibration, Collectives, Estimate, Subject

_WIDEST = 1.0  # half of an interval, as a share of the value
_FITTED = (LAW_COMPUTE, LAW_MEMORY, LAW_FIXED)
_OVERHEADS = {"dispatch": "dispatch_ns", "launch": "launch_ns"}


def machine_of(calibration: Calibration) -> Machine:
    """The machine that was measured: its record in the catalogue, if it has one, with what was measured instead."""
    base = record_of(calibration.subject)
    found = {name: replace(one, date=calibration.date[:10]) for name, one in _figures(calibration, base)}
    figures = {name: one for name, one in found.items() if not _is_vague(name, one)}
    notes = tuple(_notes(calibration, [name for name in found if name not in figures]))
    if base is not None:
        return calibrated(base, f"{base.name} of {calibration.subject.host}", figures, notes=notes)
    subject = calibration.subject
    return Machine(name=subject.name, architecture=subject.kind, figures=figures, notes=notes)


def record_of(subject: Subject) -> Machine | None:
    """Its record in the catalogue, which has no CPUs."""
    if subject.kind == "cpu":
        return None
    try:
        return catalogue.match(subject.name, subject.memory_bytes, subject.multiprocessors)
    except UnknownHardwareError:
        return None


def _is_vague(name: str, figure: Figure) -> bool:
    """A constant that the shapes did not tell is no figure. What was measured stays, however wide its interval is."""
    return name.startswith(_FITTED) and (figure.spread or 0.0) > _WIDEST


def _notes(calibration: Calibration, left_out: list[str]) -> Iterator[str]:
    if calibration.conditions.noisy:
        yield f"The machine was noisy while it was measured, by: {', '.join(calibration.conditions.noisy)}."
    if left_out:
        yield f"Left out, because their intervals are wider than their values: {', '.join(left_out)}."


def _figures(calibration: Calibration, base: Machine | None) -> Iterator[tuple[str, Figure]]:
    if base is None:
        yield "memory_bytes", _figure(calibration.subject.memory_bytes, "as the system says")
    bandwidth = memory_bytes_per_s(calibration.bandwidths)
    if bandwidth is not None:
        yield "memory_bytes_per_s", _measured(bandwidth, "the fastest of copy, triad and sum of the largest arrays")
    yield from _peaks(calibration, base)
    yield from _laws(calibration)
    for point in calibration.overheads:
        if point.name in _OVERHEADS:
            yield _OVERHEADS[point.name], _measured(point.time_ns, f"`{point.name}` of redline calibrate")
    transfers = [point for point in calibration.bandwidths if point.kind == "to_device_pinned"]
    if transfers:
        largest = max(transfers, key=lambda point: point.moved_bytes)
        yield "pcie_bytes_per_s", _measured(largest.bytes_per_s, "copies of pinned memory to the device")
    if calibration.collectives is not None:
        yield from _collectives(calibration.collectives)


def _peaks(calibration: Calibration, base: Machine | None) -> Iterator[tuple[str, Figure]]:
    """Where nobody published a peak, the best that was measured stands in for it, and says so."""
    for one in calibration.peaks:
        if one.dtype not in DTYPES:
            continue
        how = f"fastest of all matmuls: {one.shape}"
        yield f"{BEST_MATMUL}.{one.dtype}", _measured(one.burst_flops_per_s, how)
        if base is None or base.peak_flops_per_s(one.dtype) is None:
            yield f"{PEAK}.{one.dtype}", _measured(one.burst_flops_per_s, f"no peak is published; {how}")
        if one.sustained_flops_per_s is not None:
            how = f"the same matmul, after {one.sustained_s / 2:.1f} s of it"
            yield f"{SUSTAINED_MATMUL}.{one.dtype}", _measured(one.sustained_flops_per_s, how)


def _laws(calibration: Calibration) -> Iterator[tuple[str, Figure]]:
    for law in calibration.laws:
        if law.dtype not in DTYPES:
            continue
        how = f"fit to {law.points} matmuls, {100 * law.error_median:.0f} % off for those it had not seen (median)"
        yield f"{LAW_COMPUTE}.{law.dtype}", _measured(law.compute_flops_per_s, how)
        yield f"{LAW_MEMORY}.{law.dtype}", _measured(law.memory_bytes_per_s, how)
        if law.fixed_ns.value > 0:
            yield f"{LAW_FIXED}.{law.dtype}", _measured(law.fixed_ns, how)


def _collectives(found: Collectives) -> Iterator[tuple[str, Figure]]:
    """The levels that a planner asks for: inside a machine, and among machines."""
    levels = {"node": "node", "across": "across"}
    if found.hosts in {1, found.world}:
        levels = {"world": "node" if found.hosts == 1 else "across"}
    for law in found.laws:
        level = levels.get(law.group)
        if level is None:
            continue
        how = f"{found.backend}, {law.ranks} ranks; {100 * law.error_median:.0f} % off for unseen sizes (median)"
        if law.latency_ns > 0:
            yield f"{LATENCY}.{level}.{law.operation}", _figure(law.latency_ns, how, spread=law.error_median)
        if law.bytes_per_s > 0:
            yield f"{RATE}.{level}.{law.operation}", _figure(law.bytes_per_s, how, spread=law.error_median)


def _measured(estimate: Estimate, how: str) -> Figure:
    return _figure(estimate.value, how, spread=round(estimate.spread, 4))


def _figure(value: float, how: str, spread: float | None = None) -> Figure:
    return Figure(value=value, source=how, date="", origin=Origin.CALIBRATED, spread=spread)
