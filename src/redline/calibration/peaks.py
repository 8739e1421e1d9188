"""The best rate of matmuls in each type: of the fastest sample, and when the device has been busy for seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import hypot, inf
from typing import TYPE_CHECKING

from redline.calibration.calibration_record import Peak, rate
from redline.calibration.compute import MATMUL, Kernel, matmul_again
from redline.calibration.statistics import estimate, fastest

if TYPE_CHECKING:
    from redline.calibration.bench import Samples
    from redline.calibration.device import ProbeDevice

_BIN_S = 0.2


def peaks(
    samples: Samples[Kernel],
    device: ProbeDevice,
    *,
    noise: float,
    sustain_s: float,
    left_s: Callable[[], float] = lambda: inf,
    tell: Callable[[int, int], None] = lambda done, of: None,
) -> tuple[Peak, ...]:
    """One per type that was measured, in the order in which they were. Keeps the device busy for as long as told.

    Where that time is not left for every type, the last ones have no sustained rate.
    """
    chosen = list(_fastest(samples).values())
    measured = []
    for number, kernel in enumerate(chosen):
        tell(number, len(chosen))
        bins = _busy(kernel, device, sustain_s) if 0 < sustain_s < left_s() else []
        measured.append(_peak(kernel, samples.passes[kernel], bins, noise))
    return tuple(measured)


def _fastest(samples: Samples[Kernel]) -> dict[str, Kernel]:
    """The matmul of each type that did most per second."""
    best: dict[str, tuple[float, Kernel]] = {}
    for kernel in samples.passes:
        if kernel.family == MATMUL:
            speed = kernel.flops / samples.fastest(kernel, 0.0).value
            best[kernel.dtype] = max(best.get(kernel.dtype, (0.0, kernel)), (speed, kernel), key=lambda pair: pair[0])
    return {dtype: kernel for dtype, (_, kernel) in best.items()}


Bins = list[tuple[float, float]]
"""Seconds since the start and nanoseconds of a call, for parts of a fraction of a second each."""


def _peak(kernel: Kernel, passes: list[list[float]], bins: Bins, noise: float) -> Peak:
    """The last half of the busy time tells the sustained rate. The burst is the fastest sample of all, busy or not."""
    late = [time_ns for at_s, time_ns in bins if at_s >= bins[-1][0] / 2]
    between = hypot(noise, estimate(passes).spread)  # it was kept busy once; this is how far several times lie apart
    busy = [[time_ns for _, time_ns in bins]] if bins else []
    return Peak(
        dtype=kernel.dtype,
        shape=kernel.shape,
        burst_flops_per_s=rate(kernel.flops, fastest([*passes, *busy], noise)),
        sustained_flops_per_s=rate(kernel.flops, estimate([late], between)) if late else None,
        sustained_s=round(bins[-1][0], 1) if bins else 0.0,
        curve=tuple((round(at_s, 3), kernel.flops / time_ns * 1e9) for at_s, time_ns in bins),
    )


def _busy(kernel: Kernel, device: ProbeDevice, sustain_s: float) -> Bins:
    """The same matmul over and over."""
    call = matmul_again(kernel, device).prepare()
    device.timed_ns(call, 1)
    repeats = max(1, round(_BIN_S * 1e9 / device.timed_ns(call, 1)))
    bins: Bins = []
    began_s = ended_s = time.perf_counter()
    while ended_s - began_s < sustain_s:
        started_s, time_ns = ended_s, device.timed_ns(call, repeats)
        ended_s = time.perf_counter()
        bins.append(((started_s + ended_s) / 2 - began_s, time_ns))
    return bins
