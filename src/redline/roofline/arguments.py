"""From the profiler's texts to a typed call: tensors with sizes, types and strides; scalars; lists of tensors."""

from functools import cached_property, lru_cache
from math import prod
from typing import TypeVar

import msgspec

from redline.roofline.dtypes import PROFILER_NAMES, SCALAR_TYPES, Dtype, of_list_kernel
from redline.values import dataclass

Shape = tuple[int, ...]
T = TypeVar("T")

_BIGGEST = 2**63  # sizes are int64; beyond that, the text is damaged
_MOST_DIMENSIONS = 64
_DIGITS = 19

_SIZES = msgspec.json.Decoder(list[list[int | list[int]]])
_TEXTS = msgspec.json.Decoder(list[str])


class UnknownWorkError(Exception):
    """What was recorded does not tell the work of this call. Never leaves this package."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor argument as recorded when the call began, or a result as it must be."""

    shape: Shape
    dtype: Dtype
    strides: Shape | None = None

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def distinct_elements(self) -> int:
        """Elements that exist in memory: an expanded tensor repeats some, and overlapping windows share some."""
        if self.strides is None or 0 in self.shape:
            return prod(self.shape)
        pairs = list(zip(self.shape, self.strides, strict=True))
        span = 1 + sum((size - 1) * stride for size, stride in pairs)
        return min(prod(size for size, stride in pairs if stride), span)

    @property
    def size_bytes(self) -> int:
        return self.distinct_elements * self.dtype.size_bytes


@dataclass(frozen=True, slots=True)
class TensorList:
    """A list of tensors. Longer lists than 30 and the types are not recorded."""

    shapes: tuple[Shape, ...]
    dtype: Dtype | None

    @property
    def size_bytes(self) -> int:
        if self.dtype is None:
            raise UnknownWorkError
        return sum(prod(shape) for shape in self.shapes) * self.dtype.size_bytes


Argument = Tensor | TensorList | None


@dataclass(frozen=True)
class OperatorCall:
    """One call of an operator. Every accessor raises UnknownWorkError where the argument was not recorded."""

    name: str
    arguments: tuple[Argument, ...]
    types: tuple[str, ...]  # the profiler's words, which also tell scalars from absent arguments
    values: tuple[str, ...]

    @cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensor arguments in order, without those in lists."""
        return tuple(argument for argument in self.arguments if isinstance(argument, Tensor))

    def optional(self, index: int) -> Tensor | None:
        """The tensor in this place, or None where there is a scalar, a list or nothing."""
        argument = self.arguments[index] if index < len(self.arguments) else None
        return argument if isinstance(argument, Tensor) else None

    def tensor(self, index: int, dimensions: int | None = None) -> Tensor:
        tensor = self.optional(index)
        if tensor is None or (dimensions is not None and len(tensor.shape) != dimensions):
            raise UnknownWorkError
        return tensor

    def tensor_list(self, index: int) -> TensorList:
        argument = self.arguments[index] if index < len(self.arguments) else None
        if not isinstance(argument, TensorList) or not argument.shapes:
            raise UnknownWorkError
        return argument

    def absent(self, index: int) -> bool:
        """Tell whether nothing was passed in this place."""
        return index >= len(self.types) or not self.types[index]

    def value(self, index: int) -> str:
        """The text of a scalar; "" where none was passed or recorded."""
        return self.values[index] if index < len(self.values) else ""

    def flag(self, index: int) -> bool:
        text = self.value(index)
        if text not in {"True", "False"}:
            raise UnknownWorkError
        return text == "True"

    def flags(self, index: int, count: int) -> tuple[bool, ...]:
        words = _items(self.value(index))
        if len(words) != count or not set(words) <= {"True", "False"}:
            raise UnknownWorkError
        return tuple(word == "True" for word in words)

    def integer(self, index: int) -> int:
        return _integer(self.value(index))

    def integers(self, index: int) -> Shape:
        return tuple(_integer(word) for word in _items(self.value(index)))

    def spatial(self, index: int, count: int) -> Shape:
        """A list with one integer per spatial dimension; one alone stands for all."""
        sizes = self.integers(index)
        if len(sizes) == 1:
            sizes *= count
        if len(sizes) != count:
            raise UnknownWorkError
        return sizes

    def dtype_argument(self, index: int) -> Dtype | None:
        """The type that a dtype argument asks for; None where there is none."""
        if not self.value(index):
            return None
        return known(SCALAR_TYPES.get(self.integer(index)))


def known(value: T | None) -> T:
    if value is None:
        raise UnknownWorkError
    return value


def call_of(name: str, shapes: str, dtypes: str, strides: str, values: str, kernel_name: str = "") -> OperatorCall:
    """The call that these texts describe; UnknownWorkError where they describe none."""
    try:
        arguments, types = _arguments(shapes, dtypes, strides, kernel_name)
        texts = _TEXTS.decode(values) if values else []
    except (msgspec.MsgspecError, ValueError) as problem:  # ValueError: text that is no UTF-8
        raise UnknownWorkError from problem
    return OperatorCall(name, arguments, types, tuple(texts))


@lru_cache(maxsize=256)  # calls that differ in their values alone come one after the other
def _arguments(
    shapes: str, dtypes: str, strides: str, kernel_name: str
) -> tuple[tuple[Argument, ...], tuple[str, ...]]:
    sizes, types = _SIZES.decode(shapes), _TEXTS.decode(dtypes)
    steps = _SIZES.decode(strides) if strides else []
    if len(sizes) != len(types):
        raise UnknownWorkError
    if len(steps) != len(sizes):
        steps = [[] for _ in sizes]
    list_dtype = of_list_kernel(kernel_name) if kernel_name else None
    return tuple(map(_argument, sizes, types, steps, [list_dtype] * len(sizes))), tuple(types)


def _argument(
    sizes: list[int | list[int]], type_name: str, strides: list[int | list[int]], list_dtype: Dtype | None
) -> Argument:
    if type_name == "TensorList" or list in map(type, sizes):
        return TensorList(
            tuple(_shape(tensor_sizes) for tensor_sizes in sizes if isinstance(tensor_sizes, list)), list_dtype
        )
    dtype = PROFILER_NAMES.get(type_name)
    if dtype is None:
        if sizes:  # a tensor of a type that we do not know
            raise UnknownWorkError
        return None
    shape = _shape(sizes)
    return Tensor(shape, dtype, _shape(strides) if len(strides) == len(shape) else None)


def _shape(sizes: list[int | list[int]] | list[int]) -> Shape:
    valid = tuple([size for size in sizes if isinstance(size, int) and 0 <= size < _BIGGEST])
    if len(valid) != len(sizes) or len(valid) > _MOST_DIMENSIONS:
        raise UnknownWorkError
    return valid


def _items(text: str) -> list[str]:
    """The items of a list in the profiler's words: "[1, 1]", "[True, False]"."""
    if not (text.startswith("[") and text.endswith("]")):
        raise UnknownWorkError
    inside = text[1:-1].strip()
    return [item.strip() for item in inside.split(",")] if inside else []


def _integer(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS):
        raise UnknownWorkError
    return int(text)
