"""Work that is all traffic: operators whose roof is memory."""

from collections.abc import Iterable

from redline.roofline.arguments import Shape, Tensor
from redline.roofline.dtypes import Dtype
from redline.roofline.work import Work


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
