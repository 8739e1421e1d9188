"""Matrix products: two FLOPs per multiply-add; a bias adds bytes and no FLOPs."""

from collections.abc import Callable, Mapping
from math import prod

from redline.roofline.arguments import OperatorCall, Shape, Tensor, UnknownWorkError
from redline.roofline.dtypes import INT32, Dtype
from redline.roofline.sizes import Work, broadcast


def _product(left: Shape, right: Shape) -> tuple[Shape, int]:
    """Shape of the product of two tensors as torch.matmul defines it, and the length of its sums."""
    if not left or not right:
        raise UnknownWorkError
    rows, columns = left[-2:-1], right[-1:] if len(right) > 1 else ()
    inner = right[-2] if len(right) > 1 else right[0]
    if left[-1] != inner:
        raise UnknownWorkError
    return (*broadcast((left[:-2], right[:-2])), *rows, *columns), inner


def _work(left: Tensor, right: Tensor, out: Tensor, inner: int, *further: Tensor | None) -> Work:
    tensors = (left, right, out, *further)
    return Work(
        flops=2 * out.elements * inner * left.dtype.per_element,
        bytes=sum(tensor.size_bytes for tensor in tensors if tensor is not None),
        dtype=left.dtype.label,
        family="matmul",
    )


def _matmul(left: Tensor, right: Tensor, out_dtype: Dtype | None, *further: Tensor | None) -> Work:
    shape, inner = _product(left.shape, right.shape)
    return _work(left, right, Tensor(shape, out_dtype or left.dtype), inner, *further)


def _out_dtype(call: OperatorCall, index: int) -> Dtype | None:
    """The type of the result: of an out tensor, by a dtype argument, or as the inputs."""
    out = call.optional(index)
    return out.dtype if out is not None else call.dtype_argument(index)


def _plain(dimensions: int | None, right_dimensions: int | None) -> Callable[[OperatorCall], Work]:
    def rate(call: OperatorCall) -> Work:
        return _matmul(call.tensor(0, dimensions), call.tensor(1, right_dimensions), _out_dtype(call, 2))

    return rate


def _added(dimensions: int, right_dimensions: int) -> Callable[[OperatorCall], Work]:
    """beta * self + alpha * left @ right; self is not read where beta is 0."""

    def rate(call: OperatorCall) -> Work:
        summand = None if call.value(3) in {"0", "0."} else call.tensor(0)
        left, right = call.tensor(1, dimensions), call.tensor(2, right_dimensions)
        return _matmul(left, right, call.tensor(0).dtype, summand)

    return rate


def _addbmm(call: OperatorCall) -> Work:
    left, right = call.tensor(1, 3), call.tensor(2, 3)
    shape, inner = _product(left.shape, right.shape)
    summed = _work(left, right, Tensor(shape[1:], left.dtype), inner, call.tensor(0))
    return Work(flops=2 * prod(shape) * inner, bytes=summed.bytes, dtype=summed.dtype, family="matmul")


def _linear(call: OperatorCall) -> Work:
    data, weight = call.tensor(0), call.tensor(1)
    if not data.shape or len(weight.shape) not in {1, 2} or data.shape[-1] != weight.shape[-1]:
        raise UnknownWorkError
    out = Tensor((*data.shape[:-1], *weight.shape[:-1]), data.dtype)
    return _work(data, weight, out, data.shape[-1], call.optional(2))


def _packed_weight(call: OperatorCall) -> Work:
    """(out, data, bias, handle of the weight, which was put in another order before): read as it is, once."""
    out, data = call.tensor(0, 2), call.tensor(1, 2)
    if out.shape[0] != data.shape[0]:
        raise UnknownWorkError
    weight = Tensor((data.shape[1], out.shape[1]), data.dtype)
    return _work(data, weight, out, data.shape[1], call.optional(2))


def _scaled(call: OperatorCall) -> Work:
    left, right = call.tensor(0, 2), call.tensor(1, 2)
    out = call.optional(8)
    out_dtype = out.dtype if out is not None else call.dtype_argument(6)
    return _matmul(left, right, out_dtype, call.optional(2), call.optional(3), call.optional(4))


def _grouped(call: OperatorCall) -> Work:
    """Only with one matrix per group on both sides: elsewhere offsets, which are data, say how many rows count."""
    if call.optional(2) is not None:
        raise UnknownWorkError
    return _matmul(call.tensor(0, 3), call.tensor(1, 3), _out_dtype(call, 4), call.optional(3))


def _two_products(call: OperatorCall) -> Work:
    """a @ b + c @ d"""
    first = _matmul(call.tensor(0, 2), call.tensor(1, 2), None)
    second = _matmul(call.tensor(2, 2), call.tensor(3, 2), None)
    written_once = prod(_product(call.tensor(0).shape, call.tensor(1).shape)[0]) * call.tensor(0).dtype.size_bytes
    return Work(
        flops=first.flops + second.flops,
        bytes=first.bytes + second.bytes - written_once,
        dtype=first.dtype,
        family="matmul",
    )


MATMUL_RULES: Mapping[str, Callable[[OperatorCall], Work]] = {
    "aten::mm": _plain(2, 2),
    "aten::bmm": _plain(3, 3),
    "aten::mv": _plain(2, 1),
    "aten::dot": _plain(1, 1),
    "aten::vdot": _plain(1, 1),
    "aten::matmul": _plain(None, None),
    "aten::addmm": _added(2, 2),
    "aten::addmm_": _added(2, 2),
    "aten::_addmm_activation": _added(2, 2),
    "aten::baddbmm": _added(3, 3),
    "aten::baddbmm_": _added(3, 3),
    "aten::addmv": _added(2, 1),
    "aten::addmv_": _added(2, 1),
    "aten::addbmm": _addbmm,
    "aten::linear": _linear,
    "aten::mkldnn_linear": _linear,
    "_C::onednn_mm": _packed_weight,
    "aten::_scaled_mm": _scaled,
    "aten::_int_mm": lambda call: _matmul(call.tensor(0, 2), call.tensor(1, 2), INT32),
    "aten::_grouped_mm": _grouped,
    "inductor::_mm_plus_mm": _two_products,
}
