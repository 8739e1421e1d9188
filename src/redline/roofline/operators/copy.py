"""Copying, filling and joining: bytes alone."""

from collections.abc import Callable, Mapping

from redline.roofline.arguments import OperatorCall
from redline.roofline.traffic import dense, like, moved
from redline.roofline.work import Work

FAMILY = "copy"

_FILLED = ("fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "log_normal_", "cauchy_")


def _copy_into(call: OperatorCall) -> Work:
    target, source = call.tensor(0), call.tensor(1)
    return moved(FAMILY, source.dtype, source, target)


def _copied(dtype_place: int | None) -> Callable[[OperatorCall], Work]:
    """A new tensor with the elements of another, perhaps in another type."""

    def rate(call: OperatorCall) -> Work:
        source = call.tensor(0)
        dtype = None if dtype_place is None else call.dtype_argument(dtype_place)
        return moved(FAMILY, source.dtype, source, dense(source.shape, dtype or source.dtype))

    return rate


def _fill(call: OperatorCall) -> Work:
    """What was there is not read."""
    return moved(FAMILY, call.tensor(0).dtype, call.tensor(0))


def _join(call: OperatorCall) -> Work:
    """The type of the parts is known from an `out` tensor, else from the kernel."""
    parts, out = call.tensor_list(0), call.optional(2)
    if out is None:
        size, label = parts.size_bytes, parts.dtype.label if parts.dtype is not None else ""
    else:
        size = sum(dense(shape, out.dtype).size_bytes for shape in parts.shapes)
        label = out.dtype.label
    return Work(flops=0, bytes=2 * size, dtype=label, family=FAMILY)


def _repeat(call: OperatorCall) -> Work:
    """aten::repeat"""
    source, times = call.tensor(0), call.integers(1)
    shape = (*(1,) * (len(times) - len(source.shape)), *source.shape)
    repeated = tuple(size * count for size, count in zip(shape, times, strict=False))
    return moved(FAMILY, source.dtype, source, dense(repeated, source.dtype))


def _ones_like(call: OperatorCall) -> Work:
    return moved(FAMILY, call.tensor(0).dtype, like(call.tensor(0)))


RULES: Mapping[str, Callable[[OperatorCall], Work]] = {
    "aten::copy_": _copy_into,
    "aten::_to_copy": _copied(1),
    "aten::clone": _copied(None),
    "aten::contiguous": _copied(None),
    "aten::cat": _join,
    "aten::_cat": _join,
    "aten::stack": _join,
    "aten::repeat": _repeat,
    "aten::ones_like": _ones_like,
    "aten::zeros_like": _ones_like,
    "aten::full_like": _ones_like,
    **{f"aten::{name}": _fill for name in _FILLED},
}
