"""Types of numbers: the profiler's names for them, their sizes, and what an operator makes of two of them."""

import re
from enum import IntEnum

from redline.values import dataclass


class Category(IntEnum):
    """PyTorch's order of kinds of numbers: the higher one decides the type of a result."""

    BOOL = 0
    INTEGER = 1
    FLOATING = 2
    COMPLEX = 3


@dataclass(frozen=True, slots=True)
class Dtype:
    """A type of number."""

    label: str  # as in Work.dtype
    size_bytes: int
    category: Category
    per_element: int = 1  # numbers packed into one element


BOOL = Dtype("", 1, Category.BOOL)
UINT8 = Dtype("", 1, Category.INTEGER)
INT8 = Dtype("int8", 1, Category.INTEGER)
INT16 = Dtype("", 2, Category.INTEGER)
INT32 = Dtype("", 4, Category.INTEGER)
INT64 = Dtype("", 8, Category.INTEGER)
FP16 = Dtype("fp16", 2, Category.FLOATING)
BF16 = Dtype("bf16", 2, Category.FLOATING)
FP32 = Dtype("fp32", 4, Category.FLOATING)
FP64 = Dtype("fp64", 8, Category.FLOATING)
FP8 = Dtype("fp8", 1, Category.FLOATING)
FP4_PAIR = Dtype("fp4", 1, Category.FLOATING, per_element=2)
COMPLEX32 = Dtype("", 4, Category.COMPLEX)
COMPLEX64 = Dtype("", 8, Category.COMPLEX)
COMPLEX128 = Dtype("", 16, Category.COMPLEX)

# As C++ spells them, which depends on compiler and version.
PROFILER_NAMES = {
    "bool": BOOL,
    "unsigned char": UINT8,
    "signed char": INT8,
    "char": INT8,
    "short": INT16,
    "short int": INT16,
    "unsigned short": INT16,
    "short unsigned int": INT16,
    "int": INT32,
    "unsigned int": INT32,
    "long": INT64,
    "long int": INT64,
    "long long": INT64,
    "long long int": INT64,
    "__int64": INT64,
    "unsigned long": INT64,
    "long unsigned int": INT64,
    "float": FP32,
    "double": FP64,
    "c10::Half": FP16,
    "at::Half": FP16,
    "c10::BFloat16": BF16,
    "at::BFloat16": BF16,
    "c10::Float8_e4m3fn": FP8,
    "c10::Float8_e4m3fnuz": FP8,
    "c10::Float8_e5m2": FP8,
    "c10::Float8_e5m2fnuz": FP8,
    "c10::Float8_e8m0fnu": FP8,
    "c10::Float4_e2m1fn_x2": FP4_PAIR,
    "c10::complex<c10::Half>": COMPLEX32,
    "c10::complex<float>": COMPLEX64,
    "c10::complex<double>": COMPLEX128,
    "c10::qint8": INT8,
    "c10::quint8": UINT8,
    "c10::qint32": INT32,
}

# A dtype argument is recorded as PyTorch's number for it (c10::ScalarType).
SCALAR_TYPES = {
    0: UINT8,
    1: INT8,
    2: INT16,
    3: INT32,
    4: INT64,
    5: FP16,
    6: FP32,
    7: FP64,
    8: COMPLEX32,
    9: COMPLEX64,
    10: COMPLEX128,
    11: BOOL,
    15: BF16,
    23: FP8,
    24: FP8,
    25: FP8,
    26: FP8,
    44: FP8,
    45: FP4_PAIR,
}

# In names of the kernels that work on lists of tensors: the type that the functor is made for, or its size alone.
_FUNCTOR = re.compile(r"(?:Functor|CatArrayBatchedCopy\w*)<(?:\w+::)*?((?:c10::)?\w+(?: \w+)?)[,>]")
_COPY = re.compile(r"CopyFunctor<([^,<>]+), ([^,<>]+),")  # between types: no single one
_OPAQUE = re.compile(r"OpaqueType<(\d+)u?>")


def promoted(first: Dtype, second: Dtype) -> Dtype:
    """The type of a result of both, as PyTorch promotes."""
    if first.category != second.category:
        return first if first.category > second.category else second
    if {first.label, second.label} == {FP16.label, BF16.label}:
        return FP32
    return first if first.size_bytes >= second.size_bytes else second


def of_list_kernel(kernel_name: str) -> Dtype | None:
    """The type of the tensors in a list, which the profiler does not record, from the kernel that works on them."""
    opaque = _OPAQUE.search(kernel_name)
    if opaque is not None:
        return Dtype("", int(opaque[1]), Category.INTEGER) if len(opaque[1]) < 3 else None
    copy = _COPY.search(kernel_name)
    if copy is not None and copy[1] != copy[2]:
        return None
    functor = _FUNCTOR.search(kernel_name)
    return PROFILER_NAMES.get(functor[1]) if functor is not None else None
