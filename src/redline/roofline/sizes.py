"""Sizes of the tensors of a call as recorded: of any call, and of matrix products by what each size means."""

import re
from collections.abc import Iterable
from math import prod
from typing import cast

import msgspec

from redline.roofline.arguments import Shape, Tensor, UnknownWorkError
from redline.roofline.dtypes import Dtype
from redline.values import dataclass


def broadcast(shapes: Iterable[Shape]) -> Shape:
    """The shape that all of these stretch to."""
    result: list[int] = []  # from the last dimension on
    for shape in shapes:
        for place, size in enumerate(reversed(shape)):
            if place == len(result):
                result.append(size)
            elif result[place] == 1:
                result[place] = size
            elif size not in {1, result[place]}:
                raise UnknownWorkError
    return tuple(reversed(result))


def dimension(index: int, count: int) -> int:
    """A dimension counted from the front; the profiler records -1 for the last."""
    position = index + count if index < 0 else index
    if not 0 <= position < max(count, 1):
        raise UnknownWorkError
    return position


def without(shape: Shape, dimensions: Iterable[int]) -> Shape:
    """What is left of a shape when these dimensions are reduced; all of them where none is named."""
    gone = {dimension(index, len(shape)) for index in dimensions} or set(range(len(shape)))
    return tuple(size for place, size in enumerate(shape) if place not in gone)


def replaced(shape: Shape, index: int, size: int) -> Shape:
    """The shape with another size in one dimension."""
    place = dimension(index, len(shape))
    return (*shape[:place], size, *shape[place + 1 :])


def windows(size: int, kernel: int, stride: int, padding: int, dilation: int, *, ceil: bool = False) -> int:
    """How often a window fits: the output size of a convolution or a pooling along one dimension."""
    if stride < 1 or kernel < 1 or padding < 0 or dilation < 1:
        raise UnknownWorkError
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    if room < 0:
        raise UnknownWorkError
    count = -(-room // stride) + 1 if ceil else room // stride + 1
    # The last window of a rounded-up count must begin inside the input or its left padding.
    return count - 1 if ceil and (count - 1) * stride >= size + padding else count


def spread(size: int, kernel: int, stride: int, padding: int, dilation: int, extra: int) -> int:
    """The output size of a transposed convolution along one dimension."""
    if stride < 1 or kernel < 1 or padding < 0 or dilation < 1 or extra < 0:
        raise UnknownWorkError
    spread_size = (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + extra + 1
    if spread_size < 0:
        raise UnknownWorkError
    return spread_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Arithmetic and least memory traffic of one call. docs/explanation/work.md says how they are counted."""

    flops: int  # of matmul, convolution and attention; 0 for the others, whose roof is memory
    bytes: int  # each input read once, each output written once
    dtype: str  # of the data: fp64, fp32, fp16, bf16, fp8, fp4, int8; "" for other integers and bool
    family: str


def moved(family: str, dtype: Dtype, *tensors: Tensor | None) -> Work:
    """Each of these tensors is read or written once."""
    return Work(flops=0, bytes=bytes_of(tensors), dtype=dtype.label, family=family)


def bytes_of(tensors: Iterable[Tensor | None]) -> int:
    return sum(tensor.size_bytes for tensor in tensors if tensor is not None)


def dense(shape: Shape, dtype: Dtype) -> Tensor:
    """A result: freshly made, so every element exists."""
    return Tensor(shape, dtype)


def like(tensor: Tensor) -> Tensor:
    """A result of the size and type of an input."""
    return Tensor(tensor.shape, tensor.dtype)


_TENSORS = msgspec.json.Decoder(tuple[tuple[int, ...], ...])
_SHAPES = msgspec.json.Decoder(list[list[int | list[int]]])
_NUMBERS = re.compile(r"-?\d{1,9}")
_TYPES = msgspec.json.Decoder(list[str])

# Where each product takes its left matrix; the right one follows.
_LEFT = {"aten::mm": 0, "aten::bmm": 0, "aten::addmm": 1, "aten::baddbmm": 1, "aten::linear": 0}
_BATCHED = frozenset({"aten::bmm", "aten::baddbmm"})
PRODUCTS = frozenset(_LEFT)


@dataclass(frozen=True, slots=True)
class BatchedMatmul:
    """[batch, rows, inner] times [batch, inner, columns]."""

    batch: int
    rows: int
    inner: int
    columns: int


def shapes_of(text: str) -> tuple[Shape, ...]:
    """Shapes of each argument; () for scalars, lists of tensors and text that is damaged."""
    try:
        return _TENSORS.decode(text)
    except (msgspec.MsgspecError, ValueError):  # a list of tensors is among them, or it is damaged
        return tuple(() if list in map(type, sizes) else cast(Shape, tuple(sizes)) for sizes in _with_lists(text))


def _with_lists(text: str) -> list[list[int | list[int]]]:
    try:
        return _SHAPES.decode(text)
    except (msgspec.MsgspecError, ValueError):  # ValueError: text that is no UTF-8
        return []


def list_shapes_of(text: str) -> tuple[Shape, ...]:
    """Of the tensors in the first argument, if that is a list; () where it is not, or is too long to be recorded."""
    first = next(iter(_with_lists(text)), [])
    return tuple(tuple(sizes) for sizes in first if isinstance(sizes, list))


def padded_length(shapes: str, values: str) -> tuple[int, int]:
    """Last size of a tensor before and after constant_pad_nd; (0, 0) where that is not recorded or not padded."""
    sizes, pads = shapes_of(shapes), _NUMBERS.findall(next(iter(types_of(values)[1:]), ""))
    if not sizes or not sizes[0] or len(pads) < 2:
        return 0, 0
    before, after = sizes[0][-1], sizes[0][-1] + int(pads[0]) + int(pads[1])
    return (before, after) if after > before else (0, 0)


def is_channels_last(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Tell whether an image tensor [N, C, H, W] or [N, C, D, H, W] lies in memory as [N, H, W, C]."""
    return _is_image(shape, strides) and strides == _dense(
        (shape[0], *shape[2:], shape[1]), (0, -1, *range(1, len(shape) - 1))
    )


def is_channels_first(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Tell whether an image tensor lies in memory in the order of its dimensions."""
    return _is_image(shape, strides) and strides == _dense(shape, tuple(range(len(shape))))


def _is_image(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Tell whether both layouts can be told apart: several channels, and more than one pixel."""
    return len(shape) in (4, 5) and len(strides) == len(shape) and shape[1] > 1 and prod(shape[2:]) > 1


def _dense(sizes: tuple[int, ...], places: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a tensor without gaps, whose dimensions stand at these places of the order in memory."""
    strides = [prod(sizes[place + 1 :]) for place in range(len(sizes))]
    return tuple(strides[place] for place in places)


def types_of(text: str) -> tuple[str, ...]:
    """Types of each argument, as the profiler names them; () for text that is damaged."""
    try:
        return tuple(_TYPES.decode(text))
    except (msgspec.MsgspecError, ValueError):
        return ()


def has_tensor_of(dtype: str, shapes: str, types: str) -> bool:
    """Tell whether an argument with a dimension has this type: numbers from Python are tensors without one."""
    return any(shape and name == dtype for shape, name in zip(shapes_of(shapes), types_of(types), strict=False))


def elements_of(text: str) -> frozenset[int]:
    """Elements of all tensors with more than one."""
    return frozenset(prod(shape) for shape in shapes_of(text) if shape) - {0, 1}


def product_of(name: str, text: str) -> BatchedMatmul | None:
    """None for any other operator, and where shapes were not recorded."""
    shapes, place = shapes_of(text), _LEFT.get(name)
    if place is None or len(shapes) < place + 2:
        return None
    left, right = shapes[place], shapes[place + 1]
    if name == "aten::linear":
        left, right = (prod(left[:-1]), *left[-1:]), right[::-1]
    dimensions = 3 if name in _BATCHED else 2
    if not len(left) == len(right) == dimensions or left[-1] != right[-2]:
        return None
    return BatchedMatmul(prod(left[:-2]), left[-2], left[-1], right[-1])
