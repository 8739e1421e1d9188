"""Normalisations. Their statistics, one or two numbers per row or channel, are left out of the results."""

from collections.abc import Callable, Mapping

from redline.roofline.arguments import OperatorCall
from redline.roofline.traffic import like, moved
from redline.roofline.work import Work

FAMILY = "norm"


def _forward(call: OperatorCall) -> Work:
    data = call.tensor(0)
    return moved(FAMILY, data.dtype, *call.tensors, like(data))


def _statistics(call: OperatorCall) -> Work:
    """What synchronised batch normalisation sums up before ranks exchange it."""
    return moved(FAMILY, call.tensor(0).dtype, *call.tensors)


def _backward(data: int, weight: int, mask: int | None = None, *, bias: bool = True) -> Callable[[OperatorCall], Work]:
    """Gradients of the data, the weights and, where there is one, the bias; a mask says which are wanted."""

    def rate(call: OperatorCall) -> Work:
        source, scale = call.tensor(data), call.optional(weight)
        wants_data, *wanted = call.flags(mask, 2 + bias) if mask is not None else (True, True, True)
        gradients = [like(source)] if wants_data else []
        if scale is not None:
            gradients += [like(scale)] * sum(wanted)
        return moved(FAMILY, source.dtype, *call.tensors, *gradients)

    return rate


RULES: Mapping[str, Callable[[OperatorCall], Work]] = {
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
        _forward,
    ),
    "aten::batch_norm_stats": _statistics,
    "aten::batch_norm_backward_reduce": _statistics,
    "aten::native_layer_norm_backward": _backward(1, 5, mask=7),
    "aten::_fused_rms_norm_backward": _backward(1, 4, mask=5, bias=False),
    "aten::native_group_norm_backward": _backward(1, 4, mask=9),
    "aten::native_batch_norm_backward": _backward(1, 2, mask=9),
    "aten::batch_norm_backward": _backward(1, 2, mask=9),
    "aten::cudnn_batch_norm_backward": _backward(0, 2),
    "aten::miopen_batch_norm_backward": _backward(0, 2),
}
