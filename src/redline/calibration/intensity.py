"""The roofline from first principles: more and more arithmetic on the same bytes, until the time grows with it."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from redline.calibration.bench import BenchmarkCase, Samples
from redline.calibration.calibration_record import Estimate, IntensityPoint, Roofline, rate
from redline.calibration.memory import largest_bytes
from redline.calibration.multiply_add_loop import COMPILE_S, Chain, NoCompilerError, make_chain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from redline.calibration.device import ProbeDevice

_REPEATS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_QUICK_REPEATS = (1, 4, 16, 64, 256)
_CUDA_REPEATS = (512, 1024)  # some GPUs have a hundred FLOPs for each byte
_ELEMENT_BYTES = 4
_FLAT, _LINEAR = 1 / 4, 2.0  # of the ridge: in between, both limits are felt
_ABOUT = "roofline experiment"


@dataclass(frozen=True, kw_only=True)
class Load:
    """One pass over the array. See `IntensityPoint`."""

    method: str
    flops: int
    bytes: int

    @property
    def flops_per_byte(self) -> float:
        return self.flops / self.bytes


def cases(device: ProbeDevice, *, quick: bool, limit_s: float = COMPILE_S) -> list[BenchmarkCase[Load]]:
    """The arrays together are as large as those of the largest copy that `probes.memory` times."""
    try:
        chain = make_chain(device, limit_s)
    except NoCompilerError as error:
        return [_declined(error)]
    experiment = _Experiment(device, chain, largest_bytes(device, quick=quick))
    repeats = (*(_QUICK_REPEATS if quick else _REPEATS), *(_CUDA_REPEATS if device.is_cuda else ()))
    return [experiment.case(count) for count in repeats]


def _declined(error: NoCompilerError) -> BenchmarkCase[Load]:
    def prepare() -> Callable[[], object]:
        raise error

    return BenchmarkCase(key=Load(method="", flops=0, bytes=0), prepare=prepare, about=_ABOUT)


class _Experiment:
    """Two arrays that all passes share. They live as long as a call that was prepared on them."""

    def __init__(self, device: ProbeDevice, chain: Chain, size_bytes: int) -> None:
        self.device, self.chain = device, chain
        self.elements = size_bytes // 2 // _ELEMENT_BYTES // chain.block * chain.block
        self._arrays: weakref.WeakValueDictionary[str, torch.Tensor] = weakref.WeakValueDictionary()

    def case(self, repeats: int) -> BenchmarkCase[Load]:
        key = Load(
            method=self.chain.method,
            flops=2 * repeats * self.elements,
            bytes=2 * _ELEMENT_BYTES * self.elements,
        )
        about = f"{_ABOUT}, {repeats} multiply-adds per element"
        return BenchmarkCase(key=key, prepare=partial(self._prepare, repeats), about=about)

    def _prepare(self, repeats: int) -> Callable[[], object]:
        return self.chain.call(self._array("source"), self._array("target"), repeats)

    def _array(self, name: str) -> torch.Tensor:
        import torch

        array = self._arrays.get(name)
        if array is None:
            array = torch.ones(self.elements, dtype=torch.float32, device=self.device.torch_device)
            self._arrays[name] = array
        return array


def roofline(samples: Samples[Load], *, noise: float) -> Roofline | None:
    """None where too little was measured to see both roofs."""
    loads = sorted(samples.passes, key=lambda load: load.flops)
    if len(loads) < 3:
        return None
    points = [_point(load, samples.estimate(load, noise)) for load in loads]
    bandwidth, peak = _roofs(points)
    return Roofline(
        dtype="fp32",
        method=loads[0].method,
        points=tuple(points),
        bandwidth_bytes_per_s=bandwidth,
        peak_flops_per_s=peak,
        ridge_flops_per_byte=_ratio(peak, bandwidth),
    )


def _point(load: Load, time_ns: Estimate) -> IntensityPoint:
    return IntensityPoint(flops_per_byte=load.flops_per_byte, flops=load.flops, bytes=load.bytes, time_ns=time_ns)


def _roofs(points: Sequence[IntensityPoint]) -> tuple[Estimate, Estimate]:
    """Bandwidth of the points that lie well below the ridge, FLOP/s of those well above it; at least one each."""
    bandwidths = [rate(point.bytes, point.time_ns) for point in points]
    speeds = [rate(point.flops, point.time_ns) for point in points]
    ridge = max(speed.value for speed in speeds) / max(bandwidth.value for bandwidth in bandwidths)
    below = sum(point.flops_per_byte <= _FLAT * ridge for point in points)
    above = sum(point.flops_per_byte >= _LINEAR * ridge for point in points)
    return _typical(bandwidths[: max(below, 1)]), _typical(speeds[-max(above, 1) :])


def _typical(estimates: Sequence[Estimate]) -> Estimate:
    """The median, with an interval that holds all of the values."""
    values = [estimate.value for estimate in estimates]
    return Estimate(
        value=float(np.median(values)),
        low=min(*values, float(np.median([estimate.low for estimate in estimates]))),
        high=max(*values, float(np.median([estimate.high for estimate in estimates]))),
        samples=sum(estimate.samples for estimate in estimates),
        outliers=sum(estimate.outliers for estimate in estimates),
    )


def _ratio(above: Estimate, below: Estimate) -> Estimate:
    """The ends are those of both at their worst."""
    return Estimate(
        value=above.value / below.value,
        low=above.low / below.high,
        high=above.high / below.low,
        samples=above.samples + below.samples,
    )
