"""Kernels that torch.compile makes. The operator that launches one has its name, and its arguments as shapes."""

from math import prod

from redline.roofline.arguments import OperatorCall, Tensor, UnknownWorkError
from redline.roofline.traffic import bytes_of
from redline.roofline.work import Work

FAMILY = "triton"
PREFIX = "triton_"

_POINTWISE = "poi"
_REDUCTIONS = ("per", "red")
_TEMPLATE = "tem"


def rate(call: OperatorCall) -> Work:
    kind = call.name.removeprefix(PREFIX).partition("_")[0]
    if kind == _TEMPLATE:
        return _product(call)
    if kind == _POINTWISE or kind in _REDUCTIONS:
        return _fused(call)
    raise UnknownWorkError


def _fused(call: OperatorCall) -> Work:
    """Each argument once, at most one element for each step of the kernel's loops.

    That bound keeps a gathered table or a slice from counting as a whole. Which arguments are read and written both is
    not recorded, so that those count once.
    """
    if not call.tensors:
        raise UnknownWorkError
    steps = _steps(call)
    largest = max(call.tensors, key=lambda tensor: tensor.size_bytes)
    total = sum(min(tensor.distinct_elements, steps) * tensor.dtype.size_bytes for tensor in call.tensors)
    return Work(flops=0, bytes=total, dtype=largest.dtype.label, family=FAMILY)


def _steps(call: OperatorCall) -> int:
    """The product of the sizes of the loops, which are the scalars after the tensors."""
    last = max(place for place, argument in enumerate(call.arguments) if isinstance(argument, Tensor))
    sizes = [call.integer(place) for place in range(last + 1, len(call.types)) if call.value(place)]
    if not sizes or min(sizes) < 0:
        raise UnknownWorkError
    return prod(sizes)


def _product(call: OperatorCall) -> Work:
    """A matmul template, where the arguments can be nothing else: left, right, what is fused, and the result."""
    if "mm" not in call.name or len(call.tensors) < 3:
        raise UnknownWorkError
    left, right, *fused, out = call.tensors
    if not len(left.shape) == len(right.shape) == len(out.shape) == 2 or left.shape[1] != right.shape[0]:
        raise UnknownWorkError
    if out.shape != (left.shape[0], right.shape[1]) or any(tensor.elements > out.elements for tensor in fused):
        raise UnknownWorkError
    return Work(
        flops=2 * out.elements * left.shape[1],
        bytes=bytes_of(call.tensors),
        dtype=left.dtype.label,
        family="matmul",
    )
