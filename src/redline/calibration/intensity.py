"""The roofline from first principles: more and more arithmetic on the same bytes, until the time grows with it."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from redline.calibration.bench import BenchmarkCase, Samples
from redline.calibration.calibration_record import Estimate, IntensityPoint, Roofline, rate
from redline.calibration.memory import largest_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from redline.calibration.device import ProbeDevice


_SOURCE = Path(__file__).with_name("chain.c")
_COMPILERS = ("cc", "gcc", "clang")
_OPTIONS = ("-O3", "-march=native", "-ffp-contract=fast", "-fopenmp", "-shared", "-fPIC")
COMPILE_S = 60.0


class NoCompilerError(Exception):
    """The loop cannot be made here."""


@dataclass(frozen=True)
class Chain:
    """The loop, ready to be called."""

    method: str
    block: int  # arrays have a multiple of so many elements
    call: Callable[[torch.Tensor, torch.Tensor, int], Callable[[], object]]
    """Takes where to read, where to write and how many multiply-adds; gives a call."""


def make_chain(device: ProbeDevice, limit_s: float = COMPILE_S) -> Chain:
    """Raises NoCompilerError where there is no compiler, or none that can do it within the limit."""
    return Chain("torch.compile", 1, _compiled_by_torch) if device.is_cuda else _compiled_by_system(limit_s)


def _compiled_by_system(limit_s: float) -> Chain:
    compiler = next((path for name in _compilers() if (path := shutil.which(name))), None)
    if compiler is None:
        raise NoCompilerError(f"no C compiler: none of {', '.join(_compilers())} is on the path")
    with tempfile.TemporaryDirectory(prefix="redline-") as folder:
        library = Path(folder) / "chain.so"
        _compile(compiler, library, limit_s)
        loaded = _loaded(library)  # stays in memory when the file is gone
    return Chain(f"{Path(compiler).name} {' '.join(_OPTIONS[:2])}", int(loaded.block()), partial(_bound, loaded))


def _compilers() -> tuple[str, ...]:
    return tuple(name for name in (os.environ.get("CC", ""), *_COMPILERS) if name)


def _compile(compiler: str, library: Path, limit_s: float) -> None:
    command = [compiler, *_OPTIONS, str(_SOURCE), "-o", str(library)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise NoCompilerError(f"{compiler} failed: it did not end within {limit_s:.2g} s") from error
    except OSError as error:
        raise NoCompilerError(f"{compiler} failed: {error.strerror}") from error
    if done.returncode:
        raise NoCompilerError(f"{compiler} failed: {_first_error(done.stderr)}")


def _loaded(library: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(library))
    except OSError as error:  # such as a temporary folder from which nothing may be run
        raise NoCompilerError(f"what the C compiler made cannot be loaded: {error}") from error


def _first_error(text: str) -> str:
    lines = text.strip().splitlines() or ["it said nothing"]
    return next((line for line in lines if "error" in line), lines[0])


def _bound(library: ctypes.CDLL, source: torch.Tensor, target: torch.Tensor, repeats: int) -> Callable[[], object]:
    import torch

    threads = torch.get_num_threads()

    def call() -> None:
        pointers = ctypes.c_void_p(source.data_ptr()), ctypes.c_void_p(target.data_ptr())
        library.chain(*pointers, ctypes.c_long(source.numel()), ctypes.c_long(repeats), ctypes.c_int(threads))

    return call


def _compiled_by_torch(source: torch.Tensor, target: torch.Tensor, repeats: int) -> Callable[[], object]:
    return partial(_loop(repeats), source, target)


@cache
def _loop(repeats: int) -> Callable[[torch.Tensor, torch.Tensor], None]:
    import torch

    def chain(values: torch.Tensor, into: torch.Tensor) -> None:
        for _ in range(repeats):
            values = values * 0.5 + 1.0
        into.copy_(values)

    # torch compiles the same code eight times at most; a copy of it is other code.
    chain.__code__ = chain.__code__.replace()
    return torch.compile(chain, fullgraph=True, dynamic=False)


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
    points = [
        IntensityPoint(
            flops_per_byte=load.flops_per_byte,
            flops=load.flops,
            bytes=load.bytes,
            time_ns=samples.estimate(load, noise),
        )
        for load in loads
    ]
    bandwidth, peak = _roofs(points)
    return Roofline(
        dtype="fp32",
        method=loads[0].method,
        points=tuple(points),
        bandwidth_bytes_per_s=bandwidth,
        peak_flops_per_s=peak,
        ridge_flops_per_byte=_ratio(peak, bandwidth),
    )


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
