"""Reductions and what is built on them: sums and sorts, norms, softmax and losses."""

from collections.abc import Callable, Mapping

from redline.roofline.arguments import OperatorCall, Shape, UnknownWorkError
from redline.roofline.dtypes import BOOL, FP32, FP64, INT64, Category, Dtype
from redline.roofline.operators.elementwise import ELEMENTWISE_RULES
from redline.roofline.sizes import Work, bytes_of, dense, like, moved, replaced, without


def _normalised(call: OperatorCall) -> Work:
    data = call.tensor(0)
    return moved("norm", data.dtype, *call.tensors, like(data))


def _statistics(call: OperatorCall) -> Work:
    """What synchronised batch normalisation sums up before ranks exchange it."""
    return moved("norm", call.tensor(0).dtype, *call.tensors)


def _norm_backward(
    data: int, weight: int, mask: int | None = None, *, bias: bool = True
) -> Callable[[OperatorCall], Work]:
    """Gradients of the data, the weights and, where there is one, the bias; a mask says which are wanted."""

    def rate(call: OperatorCall) -> Work:
        source, scale = call.tensor(data), call.optional(weight)
        wants_data, *wanted = call.flags(mask, 2 + bias) if mask is not None else (True, True, True)
        gradients = [like(source)] if wants_data else []
        if scale is not None:
            gradients += [like(scale)] * sum(wanted)
        return moved("norm", source.dtype, *call.tensors, *gradients)

    return rate


NORM_RULES: Mapping[str, Callable[[OperatorCall], Work]] = {
    **dict.fromkeys(
        (
            "aten::native_layer_norm",
            "aten::layer_norm",
            "aten::_fused_rms_norm",
            "aten::rms_norm",
            "aten::native_group_norm",
            "aten::group_norm",
            "aten::native_batch_norm",
            "aten::_native_batch_norm_legit",
            "aten::_batch_norm_with_update",
            "aten::_batch_norm_no_update",
            "aten::_batch_norm_impl_index",
            "aten::batch_norm",
            "aten::cudnn_batch_norm",
            "aten::miopen_batch_norm",
            "aten::batch_norm_elemt",
            "aten::batch_norm_backward_elemt",
        ),
        _normalised,
    ),
    "aten::batch_norm_stats": _statistics,
    "aten::batch_norm_backward_reduce": _statistics,
    "aten::native_layer_norm_backward": _norm_backward(1, 5, mask=7),
    "aten::_fused_rms_norm_backward": _norm_backward(1, 4, mask=5, bias=False),
    "aten::native_group_norm_backward": _norm_backward(1, 4, mask=9),
    "aten::native_batch_norm_backward": _norm_backward(1, 2, mask=9),
    "aten::batch_norm_backward": _norm_backward(1, 2, mask=9),
    "aten::cudnn_batch_norm_backward": _norm_backward(0, 2),
    "aten::miopen_batch_norm_backward": _norm_backward(0, 2),
}


LOSS = "loss"

_NOT_REDUCED = 0


def _softmax(call: OperatorCall) -> Work:
    data = call.tensor(0)
    return moved("softmax", data.dtype, data, dense(data.shape, _softmax_dtype(call, data.dtype)))


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
    return moved("softmax", gradient.dtype, gradient, result, dense(gradient.shape, dtype or gradient.dtype))


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


SOFTMAX_RULES: Mapping[str, Callable[[OperatorCall], Work]] = {
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


SORTING = "sort"


def _dimensions(call: OperatorCall, place: int) -> Shape:
    """Which dimensions are reduced: a list, one integer, or nothing for all."""
    if not call.values:  # then nothing recorded does not mean nothing passed
        raise UnknownWorkError
    text = call.value(place)
    if not text:
        return ()
    return call.integers(place) if text.startswith("[") else (call.integer(place),)


def _reduced(
    call: OperatorCall, dims: int | None, dtype: Dtype | None = None, *, results: int = 1, indices: bool = False
) -> Work:
    """The dimensions are in place `dims`, or all are reduced."""
    data = call.tensor(0)
    shape = () if dims is None else without(data.shape, _dimensions(call, dims))
    outputs = [dense(shape, dtype or data.dtype)] * results
    return moved("reduction", data.dtype, data, *outputs, dense(shape, INT64) if indices else None)


def _sum(call: OperatorCall) -> Work:
    """sum, mean, prod: (self, dtype), or (self, dimensions, keep, dtype)."""
    partial = len(call.types) > 3
    out, asked = call.optional(4 if partial else 2), call.dtype_argument(3 if partial else 1)
    whole = call.tensor(0).dtype.category < Category.FLOATING and call.name != "aten::mean"
    dtype = out.dtype if out is not None else asked or (INT64 if whole else None)
    return _reduced(call, 1 if partial else None, dtype)


def _logical(call: OperatorCall) -> Work:
    return _reduced(call, 1 if len(call.types) > 2 else None, BOOL)


def _extreme(call: OperatorCall) -> Work:
    """max and min: of all elements, along a dimension with its index, or of two tensors."""
    if call.optional(1) is not None:
        return ELEMENTWISE_RULES["aten::maximum"](call)
    if len(call.types) == 1:
        return _reduced(call, None)
    return _reduced(call, 1, indices=True)


def _along(place: int, dtype: Dtype | None = None) -> Callable[[OperatorCall], Work]:
    return lambda call: _reduced(call, place, dtype)


def _spread(results: int) -> Callable[[OperatorCall], Work]:
    """var and std: (self, unbiased), or (self, dimensions, correction, keep)."""
    return lambda call: _reduced(call, 1 if len(call.types) > 2 else None, results=results)


def _scan(call: OperatorCall) -> Work:
    data = call.tensor(0)
    whole = data.dtype.category < Category.FLOATING
    dtype = call.dtype_argument(2) or (INT64 if whole else data.dtype)
    return moved("reduction", data.dtype, data, dense(data.shape, dtype))


def _sorted(call: OperatorCall) -> Work:
    data = call.tensor(0)
    return moved(SORTING, data.dtype, data, like(data), dense(data.shape, INT64))


def _top(call: OperatorCall) -> Work:
    data = call.tensor(0)
    shape = replaced(data.shape, call.integer(2), call.integer(1))
    return moved(SORTING, data.dtype, data, dense(shape, data.dtype), dense(shape, INT64))


REDUCTION_RULES: Mapping[str, Callable[[OperatorCall], Work]] = {
    "aten::sum": _sum,
    "aten::nansum": _sum,
    "aten::mean": _sum,
    "aten::prod": _sum,
    "aten::any": _logical,
    "aten::all": _logical,
    "aten::max": _extreme,
    "aten::min": _extreme,
    "aten::amax": _along(1),
    "aten::amin": _along(1),
    "aten::logsumexp": _along(1),
    "aten::argmax": _along(1, INT64),
    "aten::argmin": _along(1, INT64),
    "aten::count_nonzero": _along(1, INT64),
    "aten::norm": lambda call: _reduced(call, 2 if len(call.types) > 3 else None),
    "aten::linalg_vector_norm": _along(2),
    "aten::var": _spread(1),
    "aten::std": _spread(1),
    "aten::var_mean": _spread(2),
    "aten::std_mean": _spread(2),
    "aten::cumsum": _scan,
    "aten::cumprod": _scan,
    "aten::sort": _sorted,
    "aten::topk": _top,
}
