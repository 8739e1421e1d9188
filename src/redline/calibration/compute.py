"""How fast matmuls, convolutions and attention are, by shape and type."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

from redline.calibration.bench import BenchmarkCase, Samples
from redline.calibration.calibration_record import KernelPoint
from redline.calibration.matmul_law import FEWEST
from redline.calibration.matmuls import Number, Operands, first_flops_per_s, numbers, strict, suits, varied
from redline.calibration.shapes import (
    AttentionShape,
    Convolution,
    Cost,
    MatmulShape,
    attentions,
    convolutions,
    product_of,
    products,
)
from redline.errors import first_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from redline.calibration.device import ProbeDevice

MATMUL, CONVOLUTION, ATTENTION = "matmul", "convolution", "attention"
_LONGEST_S, _QUICK_LONGEST_S = 0.06, 0.03
_MOST_USED = ("fp32", "bf16")
_LARGEST = 4
_MEMORY_SHARE = 8  # no kernel takes more than one part in so many of the free memory
_LAYER_TYPES = {"fp32": ("float32", 4), "bf16": ("bfloat16", 2)}


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """What is timed. See `KernelPoint`."""

    family: str
    dtype: str
    shape: str
    flops: int
    bytes: int


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
    """In the order in which they were measured."""
    return tuple(
        KernelPoint(
            family=kernel.family,
            dtype=kernel.dtype,
            shape=kernel.shape,
            flops=kernel.flops,
            bytes=kernel.bytes,
            time_ns=samples.estimate(kernel, noise),
        )
        for kernel in samples.passes
    )


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
