"""Calibrations for tests of how they are shown. Every number is made up: no machine was measured."""

from dataclasses import replace
from typing import Any

from redline.calibration.calibration_record import (
    BandwidthPoint,
    Calibration,
    CollectiveLaw,
    CollectivePoint,
    Collectives,
    Conditions,
    Declined,
    DeviceInfo,
    Doubling,
    Estimate,
    IntensityPoint,
    KernelPoint,
    Law,
    LoaderPoint,
    OverheadPoint,
    PairSpeed,
    Peak,
    RankSpeed,
    Roofline,
    rate,
)
from redline.hardware.catalogue import record
from redline.hardware.machine import Figure, FigureSource, Machine, calibrated

MIB = 1 << 20
QUIET = Conditions(
    steal_share=0.001,
    other_share=0.004,
    throttled_share=-1.0,
    load_before=0.1,
    frequency_drop=0.01,
    beat_spread=0.008,
    noisy=(),
)
NOISY = Conditions(
    steal_share=0.071,
    other_share=0.34,
    throttled_share=0.05,
    load_before=3.2,
    frequency_drop=0.22,
    beat_spread=0.093,
    noisy=("steal", "other", "throttled", "load", "frequency", "beat", "waited"),
    waited_share=0.12,
)


def around(value: float, share: float = 0.02, **more: Any) -> Estimate:
    return Estimate(value=value, low=value * (1 - share), high=value * (1 + share), samples=30, **more)


# --- compute ----------------------------------------------------------------------------------------------------------

_SIZES = (64, 256, 1024, 2048)


def law(dtype: str, flops_per_s: float, bytes_per_s: float) -> Law:
    return Law(
        dtype=dtype,
        compute_flops_per_s=around(flops_per_s, 0.03),
        memory_bytes_per_s=around(bytes_per_s, 0.08),
        fixed_ns=around(4_200, 0.15),
        error_median=0.061,
        error_p90=0.193,
        points=24,
    )


def matmuls(of: Law, item_bytes: int) -> tuple[KernelPoint, ...]:
    """Square ones, a tenth slower than the law says."""
    points = []
    for size in _SIZES:
        flops, moved = 2 * size**3, 3 * size * size * item_bytes
        points.append(
            KernelPoint(
                family="matmul",
                dtype=of.dtype,
                shape=f"{size}x{size}x{size}",
                flops=flops,
                bytes=moved,
                time_ns=around(1.1 * of.time_ns(flops, moved)),
            )
        )
    return tuple(points)


def peak(dtype: str, flops_per_s: float) -> Peak:
    curve = tuple((second / 2, flops_per_s * (1 - 0.006 * min(second, 10))) for second in range(1, 21))
    return Peak(
        dtype=dtype,
        shape="2048x2048x2048",
        burst_flops_per_s=around(flops_per_s),
        sustained_flops_per_s=around(0.94 * flops_per_s, 0.015),
        sustained_s=10.0,
        curve=curve,
    )


_FP32 = law("fp32", 2.1e11, 2.2e10)
_BF16 = law("bf16", 1.6e12, 1.9e10)
_OTHER_KERNELS = (
    KernelPoint(
        family="convolution",
        dtype="fp32",
        shape="32x64x56x56 by 64x3x3",
        flops=7_398_752_256,
        bytes=51_527_680,
        time_ns=around(48e6),
    ),
    KernelPoint(
        family="attention",
        dtype="bf16",
        shape="8x12x512x64",
        flops=6_442_450_944,
        bytes=25_165_824,
        time_ns=around(9.5e6, 0.12),
    ),
)

# --- memory -----------------------------------------------------------------------------------------------------------


def bandwidths(*, kinds: tuple[str, ...] = ("copy", "triad", "sum")) -> tuple[BandwidthPoint, ...]:
    """Fast in a cache of 2 MiB, slower in one of 32 MiB, slowest beyond."""
    points = []
    for place, kind in enumerate(kinds):
        for power in range(14, 29):
            size = 1 << power
            speed = (6e10 if size <= 2 * MIB else 3e10 if size <= 32 * MIB else 1.4e10) * (1 + 0.1 * place)
            time_ns = around(size / speed * 1e9, 0.05)
            points.append(BandwidthPoint(kind=kind, working_bytes=size, moved_bytes=size, time_ns=time_ns))
    allocation = (
        BandwidthPoint(kind="allocate", working_bytes=MIB, moved_bytes=MIB, time_ns=around(1_900)),
        BandwidthPoint(kind="allocate", working_bytes=64 * MIB, moved_bytes=64 * MIB, time_ns=around(2_600_000, 0.3)),
    )
    return (*points, *allocation)


def transfers() -> tuple[BandwidthPoint, ...]:
    """Between a host and its device."""
    size = 256 * MIB
    speeds = {"to_device_pinned": 5.4e10, "to_device_pageable": 1.1e10, "to_host_pinned": 5.2e10}
    return tuple(
        BandwidthPoint(kind=kind, working_bytes=size, moved_bytes=size, time_ns=around(size / speed * 1e9))
        for kind, speed in speeds.items()
    )


# --- roofline and batches ---------------------------------------------------------------------------------------------


def roofline() -> Roofline:
    size, bandwidth, flops_per_s = 64 * MIB, 1.4e10, 9e10
    points = []
    for power in range(-3, 8):
        flops = int(size * 2.0**power)
        time_ns = around(max(size / bandwidth, flops / flops_per_s) * 1e9, 0.04)
        points.append(IntensityPoint(flops_per_byte=2.0**power, flops=flops, bytes=size, time_ns=time_ns))
    return Roofline(
        dtype="fp32",
        method="a loop in C, compiled by gcc",
        points=tuple(points),
        bandwidth_bytes_per_s=around(bandwidth),
        peak_flops_per_s=around(flops_per_s),
        ridge_flops_per_byte=around(6.43, 0.06),
    )


def doublings() -> tuple[Doubling, ...]:
    times = {1: 80e3, 2: 83e3, 4: 87e3, 8: 97e3, 16: 131e3, 32: 240e3, 64: 470e3}
    return tuple(
        Doubling(batch=batch, time_ns=around(time, 0.03), doubled_time_ns=around(times[2 * batch], 0.03))
        for batch, time in times.items()
        if 2 * batch in times
    )


# --- collectives ------------------------------------------------------------------------------------------------------

_BUS = {"all_reduce": 1.5, "all_gather": 0.75, "broadcast": 1.0, "barrier": 0.0}


def _collective(operation: str, size: int, ranks: int) -> CollectivePoint:
    time_ns = around(90e3 + size / 1.5e9 * 1e9, 0.1)
    speed = rate(size, time_ns).value
    return CollectivePoint(
        operation=operation,
        group="world",
        ranks=ranks,
        size_bytes=size,
        time_ns=time_ns,
        fastest_ns=time_ns.low,
        algorithm_bytes_per_s=speed,
        bus_bytes_per_s=speed * _BUS[operation],
        correct=True,
    )


def collectives(*, slow: bool = False) -> Collectives:
    ranks = 4
    points = [
        _collective(operation, size, ranks)
        for operation in _BUS
        for size in ((0,) if operation == "barrier" else (1 << 10, 1 << 14, 1 << 18, 1 << 22, 1 << 26))
    ]
    return Collectives(
        backend="gloo",
        world=ranks,
        hosts=1,
        points=tuple(points),
        laws=tuple(
            CollectiveLaw(
                operation=operation,
                group="world",
                ranks=ranks,
                latency_ns=91e3,
                bytes_per_s=1.48e9,
                error_median=0.07,
                error_p90=0.21,
                points=9,
            )
            for operation in _BUS
            if operation != "barrier"
        ),
        ranks=tuple(_rank(number, slow=slow and number == 3) for number in range(ranks)),
        pairs=tuple(
            _pair(first, second, slow=slow and (first, second) == (0, 2))
            for first in range(ranks)
            for second in range(first + 1, ranks)
        ),
        declined=(Declined(what="all_to_all", why="the backend gloo cannot do it"),),
    )


def _rank(number: int, *, slow: bool) -> RankSpeed:
    ratio = 1.9 if slow else 1.0
    return RankSpeed(rank=number, host="node-a", device="cpu", work_ns=around(5e6 * ratio), ratio=ratio, slow=slow)


def _pair(first: int, second: int, *, slow: bool) -> PairSpeed:
    return PairSpeed(
        first=first,
        second=second,
        level="node",
        latency_ns=4e5 if slow else 4e4,
        bytes_per_s=1.5e9 if slow else 2e9,
        latency_ratio=10.0 if slow else 1.0,
        bandwidth_ratio=0.75 if slow else 1.0,
        slow=slow,
    )


# --- the whole --------------------------------------------------------------------------------------------------------


def calibration(**changed: Any) -> Calibration:
    """Of a quiet CPU, with everything in it."""
    known = Calibration(
        subject=DeviceInfo(
            name="Imaginary CPU 9000",
            kind="cpu",
            memory_bytes=16 << 30,
            cores=8,
            threads=8,
            multiprocessors=0,
            host="node-a",
            software=(("torch", "2.13.0"), ("python", "3.11.2"), ("redline", "0.1.0")),
        ),
        date="2026-11-15T14:30:00+00:00",
        seconds=142.7,
        quick=False,
        conditions=QUIET,
        kernels=(*matmuls(_FP32, 4), *matmuls(_BF16, 2), *_OTHER_KERNELS),
        laws=(_FP32, _BF16),
        peaks=(peak("fp32", 2.05e11), peak("bf16", 1.55e12)),
        bandwidths=bandwidths(),
        overheads=(
            OverheadPoint(name="python_call", time_ns=around(48)),
            OverheadPoint(name="dispatch", time_ns=around(910, 0.04, outliers=2)),
        ),
        loaders=(
            LoaderPoint(workers=0, pinned=False, batch_bytes=4 * MIB, batch_time_ns=around(1.1e6)),
            LoaderPoint(workers=2, pinned=False, batch_bytes=4 * MIB, batch_time_ns=around(2.4e6, 0.2)),
        ),
        doublings=doublings(),
        roofline=roofline(),
        collectives=collectives(),
        declined=(Declined(what="fp8 matmul", why="no hardware for it: float8_e4m3fn is not implemented for the CPU"),),
    )
    return replace(known, **changed)


def bare_calibration() -> Calibration:
    """With nothing measured at all."""
    full = calibration()
    return Calibration(
        subject=full.subject, date=full.date, seconds=3.2, quick=True, conditions=QUIET, declined=full.declined
    )


def cpu_machine() -> Machine:
    """That the catalogue does not have."""
    figures = {
        "memory_bytes_per_s": _measured(1.4e10),
        "best_matmul_flops_per_s.fp32": _measured(2.05e11),
    }
    return Machine(name="Imaginary CPU 9000", synthetic=True, figures=figures)


def gpu_calibration() -> Calibration:
    """Of a device that the catalogue has."""
    subject = replace(calibration().subject, name="NVIDIA H100 80GB HBM3", kind="cuda", memory_bytes=80 << 30)
    return calibration(
        subject=subject,
        peaks=(peak("bf16", 7.6e14), peak("fp32", 5.1e13)),
        bandwidths=(*bandwidths(kinds=("copy",)), *transfers()),
        collectives=None,
    )


def gpu_machine() -> Machine:
    base = record("H100-SXM5-80GB")
    assert base is not None
    figures = {
        "memory_bytes_per_s": _measured(2.9e12),
        "best_matmul_flops_per_s.bf16": _measured(7.6e14),
        "best_matmul_flops_per_s.fp32": _measured(5.1e13),
        "pcie_bytes_per_s": _measured(5.4e10),
    }
    return calibrated(base, "NVIDIA H100 80GB HBM3", figures, synthetic=True)


def _measured(value: float) -> Figure:
    return Figure(value=value, source="made up", date="2026-11-15", origin=FigureSource.CALIBRATED, spread=0.02)
