"""Softmax and losses."""

from collections.abc import Callable, Mapping

from redline.roofline.arguments import OperatorCall, UnknownWorkError
from redline.roofline.dtypes import FP32, FP64, Dtype
from redline.roofline.traffic import bytes_of, dense, like, moved
from redline.roofline.work import Work

FAMILY = "softmax"
LOSS = "loss"

_NOT_REDUCED = 0


def _softmax(call: OperatorCall) -> Work:
    data = call.tensor(0)
    return moved(FAMILY, data.dtype, data, dense(data.shape, _softmax_dtype(call, data.dtype)))


def _softmax_dtype(call: OperatorCall, dtype: Dtype) -> Dtype:
    """A flag makes float of half; it matters to no other type."""
    if dtype in {FP32, FP64}:
        return dtype
    return FP32 if call.flag(2) else dtype


def _softmax_backward(call: OperatorCall) -> Work:
    gradient, result = call.tensor(0), call.tensor(1)
    saved = call.optional(3)  # up to PyTorch 1.10: the input, of which only the type is used
    dtype = saved.dtype if saved is not None else call.dtype_argument(3)
    if dtype is None and gradient.dtype not in {FP32, FP64}:
        raise UnknownWorkError
    return moved(FAMILY, gradient.dtype, gradient, result, dense(gradient.shape, dtype or gradient.dtype))


def _picked(call: OperatorCall) -> Work:
    """Negative log likelihood reads one number per target and reduces them."""
    scores, target = call.tensor(0), call.tensor(1)
    out = target.elements if call.integer(3) == _NOT_REDUCED else 1
    numbers = (target.elements + out) * scores.dtype.size_bytes
    return Work(flops=0, bytes=numbers + bytes_of((target, call.optional(2))), dtype=scores.dtype.label, family=LOSS)


def _picked_backward(call: OperatorCall) -> Work:
    """One number per target is set; the zeros around them are written by an operator of their own."""
    scores, target = call.tensor(1), call.tensor(2)
    read = bytes_of((call.tensor(0), target, call.optional(3), call.optional(6)))
    written = target.elements * scores.dtype.size_bytes
    return Work(flops=0, bytes=read + written, dtype=scores.dtype.label, family=LOSS)


def _compared(reduction: int) -> Callable[[OperatorCall], Work]:
    """Two tensors, element by element, and the sum or mean of that."""

    def rate(call: OperatorCall) -> Work:
        data, target = call.tensor(0), call.tensor(1)
        shape = data.shape if call.integer(reduction) == _NOT_REDUCED else ()
        weights = [call.optional(place) for place in range(2, reduction)]
        return moved(LOSS, data.dtype, data, target, *weights, dense(shape, data.dtype))

    return rate


def _compared_backward(call: OperatorCall) -> Work:
    gradient, data, target = call.tensor(0), call.tensor(1), call.tensor(2)
    return moved(LOSS, data.dtype, gradient, data, target, like(data))


RULES: Mapping[str, Callable[[OperatorCall], Work]] = {
    "aten::_softmax": _softmax,
    "aten::_log_softmax": _softmax,
    "aten::_softmax_backward_data": _softmax_backward,
    "aten::_log_softmax_backward_data": _softmax_backward,
    "aten::nll_loss_forward": _picked,
    "aten::nll_loss2d_forward": _picked,
    "aten::nll_loss_backward": _picked_backward,
    "aten::nll_loss2d_backward": _picked_backward,
    "aten::mse_loss": _compared(2),
    "aten::smooth_l1_loss": _compared(2),
    "aten::huber_loss": _compared(2),
    "aten::binary_cross_entropy": _compared(3),
    "aten::mse_loss_backward": _compared_backward,
    "aten::smooth_l1_loss_backward": _compared_backward,
    "aten::huber_loss_backward": _compared_backward,
    "aten::binary_cross_entropy_backward": _compared_backward,
}
