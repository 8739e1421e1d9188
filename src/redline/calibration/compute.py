"""How fast matmuls, convolutions and attention are, by shape and type."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from math import hypot, inf
from typing import TYPE_CHECKING

import numpy as np

from redline.calibration.bench import BenchmarkCase, Samples, estimate, fastest
from redline.calibration.calibration_record import Estimate, Kernel, KernelPoint, Law, Peak, rate
from redline.calibration.matmuls import (
    AttentionShape,
    Convolution,
    Cost,
    MatmulShape,
    Number,
    Operands,
    attentions,
    convolutions,
    first_flops_per_s,
    numbers,
    product_of,
    products,
    strict,
    suits,
    varied,
)
from redline.errors import first_line

if TYPE_CHECKING:
    from redline.calibration.device import ProbeDevice


FEWEST = 5
_FOLDS = 5
_REPLICATES = 40
_SEED = 6
_SIGMAS = 1.96  # half of an interval of 95 %, in standard deviations
_LOW, _HIGH = 2.5, 97.5  # percentiles
_MOST_SPREAD = 1.0

_SIDE = 9  # candidates along each constant
_ROUNDS = 12
_NEXT = 0.45  # how much of the box the next round looks at


def fit_law(points: Sequence[KernelPoint]) -> Law | None:
    """The law that is least wrong on average, in logarithms; None for fewer than five shapes."""
    if len(points) < FEWEST:
        return None
    timings = _Timings.of(points)
    constants = _fit(timings)
    error_median, error_p90 = _errors(timings)
    low, high = _interval(timings, constants)
    compute, memory, fixed = (
        Estimate(value=float(value), low=float(least), high=float(most), samples=len(points))
        for value, least, most in zip(np.exp(constants), np.exp(low), np.exp(high), strict=True)
    )
    return Law(
        dtype=points[0].dtype,
        compute_flops_per_s=_per_s(compute),
        memory_bytes_per_s=_per_s(memory),
        fixed_ns=fixed,
        error_median=error_median,
        error_p90=error_p90,
        points=len(points),
    )


@dataclass(frozen=True)
class _Timings:
    """Work and nanoseconds of each shape."""

    flops: np.ndarray
    bytes: np.ndarray
    time_ns: np.ndarray
    spread: np.ndarray  # half of the interval of each time, as a share of it

    @classmethod
    def of(cls, points: Sequence[KernelPoint]) -> _Timings:
        """From fast to slow, so that every fold has some of all."""
        ordered = sorted(points, key=lambda point: point.time_ns.value)
        rows = [(point.flops, point.bytes, point.time_ns.value, point.time_ns.spread) for point in ordered]
        flops, size_bytes, time_ns, spread = np.array(rows, dtype=float).T
        return cls(flops, size_bytes, time_ns, np.minimum(spread, _MOST_SPREAD))

    def of_rows(self, rows: np.ndarray) -> _Timings:
        return _Timings(self.flops[rows], self.bytes[rows], self.time_ns[rows], self.spread[rows])

    def drawn(self, generator: np.random.Generator) -> _Timings:
        """As many of the shapes by chance, each with a time that it might have had."""
        rows = generator.integers(len(self.time_ns), size=len(self.time_ns))
        times_ns = self.time_ns * np.exp(generator.standard_normal(len(rows)) * self.spread / _SIGMAS)
        return replace(self, time_ns=times_ns).of_rows(rows)


def _predicted_ns(constants: np.ndarray, timings: _Timings) -> np.ndarray:
    """One row per set of constants: the logarithms of FLOPs and bytes per nanosecond, and of nanoseconds."""
    compute, memory, fixed = (np.exp(column)[..., None] for column in constants.T)
    return np.asarray(np.maximum(timings.flops / compute, timings.bytes / memory) + fixed)


def _loss(constants: np.ndarray, timings: _Timings) -> np.ndarray:
    return np.asarray(np.abs(np.log(_predicted_ns(constants, timings) / timings.time_ns)).mean(axis=-1))


def _fit(timings: _Timings) -> np.ndarray:
    """Looks at boxes of candidates, each a part of the one before around its best.

    The loss has several valleys, which a search downhill would not leave. Where the shapes do not tell a constant, many
    are equally good: of rates, the lowest is taken.
    """
    centre, reach = _box(timings)
    best, least = centre, np.inf
    steps = np.linspace(-1.0, 1.0, _SIDE)
    offsets = np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), axis=-1).reshape(-1, 3)
    for _ in range(_ROUNDS):
        candidates = best + offsets * reach
        losses = _loss(candidates, timings)
        smallest = int(np.argmin(losses))
        if losses[smallest] < least:
            best, least = candidates[smallest], losses[smallest]
        reach = reach * _NEXT
    return best


def _box(timings: _Timings) -> tuple[np.ndarray, np.ndarray]:
    """Where the constants can be. No shape beats the rates, and none is faster than the fixed time, but for noise."""
    compute = np.log((timings.flops / timings.time_ns).max())
    memory = np.log((timings.bytes / timings.time_ns).max())
    fixed = np.log(timings.time_ns.min())
    return np.array([compute, memory, fixed - 2.0]), np.array([2.0, 2.0, 3.0])


def _errors(timings: _Timings) -> tuple[float, float]:
    """Median and 90th percentile over shapes that were left out of the fit, each once."""
    numbers = np.arange(len(timings.time_ns))
    errors = np.empty(len(numbers))
    for fold in range(_FOLDS):
        unseen = numbers % _FOLDS == fold
        fitted = _fit(timings.of_rows(numbers[~unseen]))
        held = timings.of_rows(numbers[unseen])
        errors[unseen] = np.abs(_predicted_ns(fitted, held) / held.time_ns - 1)
    return float(np.median(errors)), float(np.percentile(errors, 90))


def _interval(timings: _Timings, constants: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """From fits to other choices of the shapes with other times.

    What slows one shape down slows others down too, so the usual spread of a time is one of the constants as well.
    """
    generator = np.random.default_rng(_SEED)
    fits = np.array([_fit(timings.drawn(generator)) for _ in range(_REPLICATES)])
    below = constants - np.minimum(constants, np.percentile(fits, _LOW, axis=0))
    above = np.maximum(constants, np.percentile(fits, _HIGH, axis=0)) - constants
    usual = np.median(timings.spread)
    return constants - np.hypot(below, usual), constants + np.hypot(above, usual)


def _per_s(per_ns: Estimate) -> Estimate:
    return Estimate(value=per_ns.value * 1e9, low=per_ns.low * 1e9, high=per_ns.high * 1e9, samples=per_ns.samples)


MATMUL, CONVOLUTION, ATTENTION = "matmul", "convolution", "attention"
_LONGEST_S, _QUICK_LONGEST_S = 0.06, 0.03
_MOST_USED = ("fp32", "bf16")
_LARGEST = 4
_MEMORY_SHARE = 8  # no kernel takes more than one part in so many of the free memory
_LAYER_TYPES = {"fp32": ("float32", 4), "bf16": ("bfloat16", 2)}


def first_cases(device: ProbeDevice, *, quick: bool, share: float = 1.0) -> list[BenchmarkCase[Kernel]]:
    """The largest matmuls of the types that are used most: among them are the fastest."""
    largest = []
    for number in _ordered(device)[: len(_MOST_USED)]:
        matmuls = _matmuls(number, device, quick=quick, share=share)
        largest += sorted(matmuls, key=lambda case: -case.key.flops)[:_LARGEST]
    return largest


def cases(device: ProbeDevice, *, quick: bool, share: float = 1.0) -> list[BenchmarkCase[Kernel]]:
    """Shapes whose call would take longer than some milliseconds here, or a share of that, are left out."""
    chosen = [case for number in _ordered(device) for case in _matmuls(number, device, quick=quick, share=share)]
    for dtype in _LAYER_TYPES:
        chosen += [
            _convolution(convolution, dtype, device)
            for convolution in convolutions(is_cuda=device.is_cuda, quick=quick)
        ]
        chosen += [
            _attention(attention_shape, dtype, device)
            for attention_shape in attentions(is_cuda=device.is_cuda, quick=quick)
        ]
    return chosen


def points(samples: Samples[Kernel], *, noise: float) -> tuple[KernelPoint, ...]:
    return tuple(KernelPoint(**asdict(kernel), time_ns=samples.estimate(kernel, noise)) for kernel in samples.passes)


def matmul_again(kernel: Kernel, device: ProbeDevice) -> BenchmarkCase[Kernel]:
    """The case of a matmul that was measured before."""
    number = next(number for number in numbers(device) if number.name == kernel.dtype)
    product = product_of(kernel.shape)
    return _matmul(number, product, Operands(device, [product]))


def _ordered(device: ProbeDevice) -> list[Number]:
    """The types that are used most first."""
    usable = numbers(device)
    return [
        *(number for number in usable if number.name in _MOST_USED),
        *(number for number in usable if number.name not in _MOST_USED),
    ]


# --- matmul -----------------------------------------------------------------------------------------------------------


def _matmuls(number: Number, device: ProbeDevice, *, quick: bool, share: float) -> list[BenchmarkCase[Kernel]]:
    try:
        speed = _first_flops_per_s(number, device)
    except Exception as error:  # noqa: BLE001 (whatever torch or a driver raises: it cannot be measured here)
        return [_declined(number, first_line(error))]
    chosen = [product for product in products(quick=quick) if suits(number, product, device)]
    longest_s = share * (_QUICK_LONGEST_S if quick else _LONGEST_S)
    kept = _short(chosen, number, speed * longest_s, device.free_bytes())
    operands = Operands(device, kept)
    return [_matmul(number, product, operands) for product in kept]


@cache
def _first_flops_per_s(number: Number, device: ProbeDevice) -> float:
    """Asked for once: the shapes have to be the same whenever cases are made."""
    return first_flops_per_s(number, device)


def _short(chosen: list[MatmulShape], number: Number, most_flops: float, free_bytes: int) -> list[MatmulShape]:
    """Those that are small enough, and always as many as a law needs."""
    costs = {product: product.cost(number.operand_bytes, number.result_bytes) for product in chosen}
    ordered = sorted(costs.values(), key=lambda cost: cost.flops)
    enough = ordered[min(FEWEST, len(ordered)) - 1].flops
    return [
        product
        for product, cost in costs.items()
        if cost.flops <= max(most_flops, enough) and cost.bytes <= free_bytes // _MEMORY_SHARE
    ]


def _matmul(number: Number, product: MatmulShape, operands: Operands) -> BenchmarkCase[Kernel]:
    cost = product.cost(number.operand_bytes, number.result_bytes)
    return _case(MATMUL, number.name, str(product), cost, partial(operands.call, number, product))


def _declined(number: Number, why: str) -> BenchmarkCase[Kernel]:
    """A case that says once for all shapes why there is none of this type."""

    def prepare() -> Callable[[], object]:
        raise RuntimeError(why)

    key = Kernel(family=MATMUL, dtype=number.name, shape="", flops=0, bytes=0)
    return BenchmarkCase(key=key, prepare=prepare, about=f"{MATMUL} in {number.name}")


# --- convolution and attention ----------------------------------------------------------------------------------------


def _convolution(shape: Convolution, dtype: str, device: ProbeDevice) -> BenchmarkCase[Kernel]:
    torch_dtype, element_bytes = _LAYER_TYPES[dtype]

    def prepare() -> Callable[[], object]:
        import torch

        sizes = (shape.batch, shape.channels, shape.size, shape.size), (shape.channels, shape.channels, 3, 3)
        # Channels last is what convolutions are fastest in, on CPUs as on GPUs.
        data, weight = (varied(size, torch_dtype, device).to(memory_format=torch.channels_last) for size in sizes)
        call = partial(torch.nn.functional.conv2d, data, weight, padding=1)
        # Convolutions of fp32 are computed in tf32 on CUDA, unless one says otherwise.
        return strict(call, getattr(torch.backends.cudnn, "conv", None)) if device.is_cuda else call

    return _case(CONVOLUTION, dtype, str(shape), shape.cost(element_bytes), prepare)


def _attention(shape: AttentionShape, dtype: str, device: ProbeDevice) -> BenchmarkCase[Kernel]:
    torch_dtype, element_bytes = _LAYER_TYPES[dtype]

    def prepare() -> Callable[[], object]:
        from torch.nn.functional import scaled_dot_product_attention

        sizes = (shape.batch, shape.heads, shape.length, shape.size)
        query, key, value = (varied(sizes, torch_dtype, device) for _ in range(3))
        return partial(scaled_dot_product_attention, query, key, value, is_causal=shape.causal)

    return _case(ATTENTION, dtype, str(shape), shape.cost(element_bytes), prepare)


def _case(
    family: str, dtype: str, shape: str, cost: Cost, prepare: Callable[[], Callable[[], object]]
) -> BenchmarkCase[Kernel]:
    key = Kernel(family=family, dtype=dtype, shape=shape, flops=cost.flops, bytes=cost.bytes)
    return BenchmarkCase(key=key, prepare=prepare, about=f"{family} in {dtype}, {shape}")


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
