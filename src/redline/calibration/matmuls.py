"""Matmuls in each type of number: how torch is asked for one, and whether it computes in that type here."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from redline.roofline.operators.attention import visible_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import torch

    from redline.calibration.device import ProbeDevice

    Call = Callable[[], torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Counted as `redline.roofline` counts the work of operators: bytes are read and written once each."""

    flops: int
    bytes: int


@dataclass(frozen=True)
class MatmulShape:
    """[m, k] times [k, n]."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"

    @property
    def parts(self) -> tuple[int, int, int]:
        """Elements of both operands and of the result."""
        return self.m * self.k, self.k * self.n, self.m * self.n

    def cost(self, operand_bytes: int, result_bytes: int) -> Cost:
        left, right, result = self.parts
        return Cost(flops=2 * left * self.n, bytes=(left + right) * operand_bytes + result * result_bytes)


def product_of(text: str) -> MatmulShape:
    """The matmul that a shape such as 1024x1024x4096 names."""
    m, n, k = map(int, text.split("x"))
    return MatmulShape(m, n, k)


@dataclass(frozen=True)
class Convolution:
    """3x3 with padding, as many channels out as in."""

    batch: int
    channels: int
    size: int

    def __str__(self) -> str:
        return f"{self.batch}x{self.channels}x{self.size}x{self.size}, 3x3"

    def cost(self, element_bytes: int) -> Cost:
        data, weight = self.batch * self.channels * self.size**2, 9 * self.channels**2
        return Cost(flops=2 * data * 9 * self.channels, bytes=(2 * data + weight) * element_bytes)


@dataclass(frozen=True)
class AttentionShape:
    """Attention over queries, keys and values that are alike in shape."""

    batch: int
    heads: int
    length: int
    size: int
    causal: bool

    def __str__(self) -> str:
        return f"{self.batch}x{self.heads}x{self.length}x{self.size}{', causal' if self.causal else ''}"

    def cost(self, element_bytes: int) -> Cost:
        pairs = visible_pairs(self.length, self.length, 0, None, 0 if self.causal else None)
        rows = self.batch * self.heads
        return Cost(flops=4 * rows * pairs * self.size, bytes=4 * rows * self.length * self.size * element_bytes)


_QUICK_PRODUCTS = (
    MatmulShape(32, 32, 32),  # hardly any work: what a call costs by itself
    MatmulShape(128, 128, 128),
    MatmulShape(256, 256, 256),
    MatmulShape(512, 512, 512),
    MatmulShape(1024, 1024, 1024),
    MatmulShape(4096, 4096, 4096),
    MatmulShape(2048, 1024, 1024),
    MatmulShape(4096, 1024, 1024),
    MatmulShape(2048, 4096, 1024),
    MatmulShape(1, 4096, 4096),
    MatmulShape(8, 4096, 4096),
    MatmulShape(64, 4096, 4096),
)
_MORE_PRODUCTS = (
    MatmulShape(768, 768, 768),
    MatmulShape(2048, 2048, 2048),
    MatmulShape(8192, 8192, 8192),
    # Tall, wide and deep.
    MatmulShape(8192, 1024, 1024),
    MatmulShape(1024, 8192, 1024),
    MatmulShape(1024, 1024, 8192),
    MatmulShape(4096, 4096, 1024),
    MatmulShape(8192, 256, 256),
    # The layers of transformers, in training: tokens, features out, features in.
    MatmulShape(512, 3072, 768),
    MatmulShape(512, 768, 3072),
    MatmulShape(8192, 4096, 4096),
    MatmulShape(8192, 14336, 4096),
    # Decoding: few tokens, and a matrix that caches hardly hold.
    MatmulShape(1, 8192, 8192),
    MatmulShape(16, 8192, 8192),
)


def products(*, quick: bool) -> tuple[MatmulShape, ...]:
    return _QUICK_PRODUCTS if quick else (*_QUICK_PRODUCTS, *_MORE_PRODUCTS)


def convolutions(*, is_cuda: bool, quick: bool) -> tuple[Convolution, ...]:
    """Shapes of ResNet-50, from its first stage to its last."""
    batch = 128 if is_cuda else 8
    layers = (Convolution(batch, 64, 56), Convolution(batch, 256, 14), Convolution(batch, 512, 7))
    return layers[1:2] if quick else layers


def attentions(*, is_cuda: bool, quick: bool) -> tuple[AttentionShape, ...]:
    sizes = ((8, 32, 1024, 128), (2, 32, 4096, 128)) if is_cuda else ((1, 8, 512, 64), (1, 8, 1024, 128))
    return tuple(AttentionShape(*size, causal) for size in (sizes[:1] if quick else sizes) for causal in (False, True))


_BLOCK = 1 << 16  # numbers that repeat in an operand: random ones for all of it would take longer than the matmul
_SMALL = MatmulShape(64, 64, 64)
_EMULATED_FLOPS_PER_S = 1e9  # a matmul that is slower than this is not computed by the hardware
_FIRST_NS, _FEWEST_CALLS, _MOST_CALLS = 150_000_000, 4, 50
_FIRST_SIZES, _FIRST_CALL_S = (64, 128, 256, 512), 0.03
_LEAST_INT8_ROWS = 17  # of cuBLAS
_FP8_CAPABILITY = (8, 9)


@dataclass(frozen=True, kw_only=True)
class Number:
    """A type in which matmuls are measured."""

    name: str  # as in `KernelPoint.dtype`
    operand: str  # as torch names it
    result: str
    operand_bytes: int
    result_bytes: int
    relaxed: str = ""  # what torch may compute fp32 in


_FP32 = Number(name="fp32", operand="float32", result="float32", operand_bytes=4, result_bytes=4)
_TF32 = Number(name="tf32", operand="float32", result="float32", operand_bytes=4, result_bytes=4, relaxed="tf32")
_AS_BF16 = Number(
    name="fp32-as-bf16", operand="float32", result="float32", operand_bytes=4, result_bytes=4, relaxed="bf16"
)
_OTHERS = (
    Number(name="bf16", operand="bfloat16", result="bfloat16", operand_bytes=2, result_bytes=2),
    Number(name="fp16", operand="float16", result="float16", operand_bytes=2, result_bytes=2),
    Number(name="int8", operand="int8", result="int32", operand_bytes=1, result_bytes=4),
    Number(name="fp8", operand="float8_e4m3fn", result="bfloat16", operand_bytes=1, result_bytes=2),
)


def numbers(device: ProbeDevice) -> tuple[Number, ...]:
    return (_FP32, _TF32 if device.is_cuda else _AS_BF16, *_OTHERS)


class Operands:
    """Arrays of which all matmuls use parts. They live as long as a call that was made on them."""

    def __init__(self, device: ProbeDevice, products: Iterable[MatmulShape]) -> None:
        self.device = device
        self._elements = [max(sizes) for sizes in zip(*(product.parts for product in products), strict=True)]
        self._arrays: weakref.WeakValueDictionary[tuple[int, str], _Array] = weakref.WeakValueDictionary()

    def call(self, number: Number, product: MatmulShape) -> Call:
        shapes = (product.m, product.k), (product.k, product.n), (product.m, product.n)
        types = number.operand, number.operand, number.result
        arrays = [self._array(place, dtype) for place, dtype in enumerate(types)]
        left, right, out = (array.part(*shape) for array, shape in zip(arrays, shapes, strict=True))
        call = _Call(_product_call(number, left, right, out))
        call.arrays = arrays
        return call

    def _array(self, place: int, dtype: str) -> _Array:
        array = self._arrays.get((place, dtype))
        if array is None:
            array = _Array(self.device, self._elements[place], dtype)
            self._arrays[place, dtype] = array
        return array


class _Array:
    def __init__(self, device: ProbeDevice, elements: int, dtype: str) -> None:
        self.values = varied((elements,), dtype, device)

    def part(self, rows: int, columns: int) -> torch.Tensor:
        return self.values[: rows * columns].view(rows, columns)


class _Call(partial["torch.Tensor"]):
    """A call that keeps the arrays it works on."""

    arrays: list[_Array]


def varied(shape: tuple[int, ...], dtype: str, device: ProbeDevice) -> torch.Tensor:
    """Numbers around zero: on some hardware, a matmul of ones or zeros draws less power and runs at a higher clock."""
    import torch

    block = torch.randn(_BLOCK, generator=torch.Generator().manual_seed(0))
    kind: torch.dtype = getattr(torch, dtype)
    block = (8 * block if not kind.is_floating_point else block).to(device.torch_device, kind)
    elements = torch.Size(shape).numel()
    whole = torch.empty(-(-elements // _BLOCK), _BLOCK, dtype=kind, device=device.torch_device)
    return whole.copy_(block).view(-1)[:elements].view(shape)


# --- how torch is asked -----------------------------------------------------------------------------------------------


def _product_call(number: Number, left: torch.Tensor, right: torch.Tensor, out: torch.Tensor) -> Call:
    import torch

    by_columns = right.view(right.shape[::-1]).t()  # the layout in which GPUs take the second matrix of narrow types
    if number.name == "int8":
        return partial(torch._int_mm, left, by_columns if left.is_cuda else right, out=out)
    if number.name == "fp8":
        unit = torch.ones((), device=left.device)
        return partial(
            torch._scaled_mm, left, by_columns, unit, unit, out_dtype=out.dtype, use_fast_accum=True, out=out
        )
    plain = partial(torch.mm, left, right, out=out)
    backend: Any = torch.backends.cuda if left.is_cuda else torch.backends.mkldnn
    if number.relaxed:
        return _computed_in(number.relaxed, plain, backend.matmul)
    # Some images of containers have tf32 instead of fp32 by default.
    return strict(plain, backend.matmul) if number.name == "fp32" and left.is_cuda else plain


def strict(call: Call, setting: Any) -> Call:
    """The call with fp32 computed as fp32. A torch before 2.9 does not have the setting."""
    return _computed_in("ieee", call, setting) if hasattr(setting, "fp32_precision") else call


def _computed_in(precision: str, call: Call, setting: Any) -> Call:
    """The call with fp32 computed in another type. Setting that costs less than a microsecond.

    https://docs.pytorch.org/docs/stable/notes/mkldnn.html and notes/cuda.html
    """
    before = setting.fp32_precision

    def computed() -> torch.Tensor:
        setting.fp32_precision = precision
        try:
            return call()
        finally:
            setting.fp32_precision = before

    return computed


# --- whether it is computed so here -----------------------------------------------------------------------------------


class NotHereError(Exception):
    """This type cannot be measured on this device."""


def first_flops_per_s(number: Number, device: ProbeDevice) -> float:
    """About how fast matmuls in this type are here. Raises where they are not computed in it."""
    _refuse(number, device)
    sizes = (4096,) if device.is_cuda else _FIRST_SIZES
    if number.relaxed:
        product = MatmulShape(sizes[-1], sizes[-1], sizes[-1])
        _refuse_unchanged(number, Operands(device, [product]), product)
    speed = 0.0
    for size in sizes:
        product = MatmulShape(size, size, size)
        speed = _speed(number, product, Operands(device, [product]))
        if product.cost(1, 1).flops / speed > _FIRST_CALL_S:  # the next would take eight times as long, or more
            break
    return speed


def suits(number: Number, product: MatmulShape, device: ProbeDevice) -> bool:
    """Tell whether torch takes this shape."""
    return number.name != "int8" or not device.is_cuda or product.m >= _LEAST_INT8_ROWS


def _refuse(number: Number, device: ProbeDevice) -> None:
    """torch has fp8 on every device, and computes it number by number where there is no hardware for it."""
    import torch

    if number.name != "fp8":
        return
    if device.is_cuda:
        if torch.cuda.get_device_capability() < _FP8_CAPABILITY:
            raise NotHereError("this device has no fp8 arithmetic")
    elif _speed(number, _SMALL, Operands(device, [_SMALL])) < _EMULATED_FLOPS_PER_S:
        raise NotHereError("this processor has no fp8 arithmetic that torch uses: it would be emulated")


def _refuse_unchanged(number: Number, operands: Operands, product: MatmulShape) -> None:
    """Where the results are those of fp32 to the last bit, it was fp32."""
    import torch

    exact = operands.call(_FP32, product)().clone()
    if torch.equal(exact, operands.call(number, product)()):
        raise NotHereError(f"torch computes fp32 as fp32 on this device, even where it may use {number.relaxed}")


def _speed(number: Number, product: MatmulShape, operands: Operands) -> float:
    """FLOP/s of the best of several calls: on a busy machine, single ones may take a thousand times as long."""
    call, device = operands.call(number, product), operands.device
    times_ns = [device.timed_ns(call, 1)]
    while len(times_ns) < _FEWEST_CALLS or (sum(times_ns) < _FIRST_NS and len(times_ns) < _MOST_CALLS):
        times_ns.append(device.timed_ns(call, 1))
    return product.cost(1, 1).flops / min(times_ns) * 1e9
