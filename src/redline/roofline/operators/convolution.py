"""Convolutions, pooling and resizing, in all their versions: windows that slide over images."""

from collections.abc import Callable, Mapping
from math import prod

from redline.roofline.arguments import OperatorCall, Shape, Tensor, UnknownWorkError
from redline.roofline.dtypes import INT64
from redline.roofline.sizes import Work, dense, like, moved, spread, windows
from redline.values import dataclass

POOLING = "pooling"
RESAMPLING = "resampling"


def _resized(data: Tensor, spatial: Shape) -> Tensor:
    if len(data.shape) <= len(spatial):
        raise UnknownWorkError
    return dense((*data.shape[: len(data.shape) - len(spatial)], *spatial), data.dtype)


def _pooled(call: OperatorCall, dimensions: int, *, dilation: int | None, ceil: int) -> Tensor:
    data, kernel, padding = call.tensor(0), call.spatial(1, dimensions), call.spatial(3, dimensions)
    stride = call.spatial(2, dimensions) if call.integers(2) else kernel
    spread = (1,) * dimensions if dilation is None else call.spatial(dilation, dimensions)
    rounded_up = call.flag(ceil)
    settings = zip(data.shape[-dimensions:], kernel, stride, padding, spread, strict=True)
    return _resized(data, tuple(windows(*setting, ceil=rounded_up) for setting in settings))


def _max_pool(dimensions: int) -> Callable[[OperatorCall], Work]:
    def rate(call: OperatorCall) -> Work:
        data = call.tensor(0, dimensions + 2)
        out = _pooled(call, dimensions, dilation=4, ceil=5)
        return moved(POOLING, data.dtype, data, out, dense(out.shape, INT64))

    return rate


def _average_pool(dimensions: int) -> Callable[[OperatorCall], Work]:
    def rate(call: OperatorCall) -> Work:
        data = call.tensor(0, dimensions + 2)
        return moved(POOLING, data.dtype, data, _pooled(call, dimensions, dilation=None, ceil=4))

    return rate


def _pool_backward(indices: int | None) -> Callable[[OperatorCall], Work]:
    """Of the input only the size is used."""

    def rate(call: OperatorCall) -> Work:
        gradient, data = call.tensor(0), call.tensor(1)
        chosen = None if indices is None else call.tensor(indices)
        return moved(POOLING, data.dtype, gradient, chosen, like(data))

    return rate


def _to_size(family: str, *, indices: bool = False) -> Callable[[OperatorCall], Work]:
    """The size of the result is an argument."""

    def rate(call: OperatorCall) -> Work:
        data = call.tensor(0)
        out = _resized(data, call.integers(1))
        if not call.integers(1) or any(size < 0 for size in out.shape):
            raise UnknownWorkError
        return moved(family, data.dtype, data, out, dense(out.shape, INT64) if indices else None)

    return rate


def _upsample_backward(call: OperatorCall) -> Work:
    gradient, shape = call.tensor(0), call.integers(2)
    if len(shape) != len(gradient.shape) or any(size < 0 for size in shape):
        raise UnknownWorkError
    return moved(RESAMPLING, gradient.dtype, gradient, dense(shape, gradient.dtype))


_UPSAMPLING = (
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_nearest3d",
    "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d",
    "_upsample_nearest_exact3d",
    "upsample_linear1d",
    "upsample_bilinear2d",
    "upsample_bicubic2d",
    "upsample_trilinear3d",
    "_upsample_bilinear2d_aa",
    "_upsample_bicubic2d_aa",
)

RESIZE_RULES: Mapping[str, Callable[[OperatorCall], Work]] = {
    "aten::max_pool2d_with_indices": _max_pool(2),
    "aten::max_pool3d_with_indices": _max_pool(3),
    "aten::avg_pool2d": _average_pool(2),
    "aten::avg_pool3d": _average_pool(3),
    "aten::max_pool2d_with_indices_backward": _pool_backward(7),
    "aten::max_pool3d_with_indices_backward": _pool_backward(7),
    "aten::avg_pool2d_backward": _pool_backward(None),
    "aten::avg_pool3d_backward": _pool_backward(None),
    "aten::_adaptive_avg_pool2d": _to_size(POOLING),
    "aten::_adaptive_avg_pool3d": _to_size(POOLING),
    "aten::adaptive_max_pool2d": _to_size(POOLING, indices=True),
    "aten::_adaptive_avg_pool2d_backward": _pool_backward(None),
    "aten::_adaptive_avg_pool3d_backward": _pool_backward(None),
    "aten::adaptive_max_pool2d_backward": _pool_backward(2),
    **{f"aten::{name}": _to_size(RESAMPLING) for name in _UPSAMPLING},
    **{f"aten::{name}_backward": _upsample_backward for name in _UPSAMPLING},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionArguments:
    """Where an operator takes its settings; None where it has no such argument."""

    stride: int
    padding: int
    dilation: int | None = None
    groups: int | None = None
    bias: int | None = None
    output_padding: int | None = None
    transposed: bool | int = False  # an int is the place of a flag
    added: int | None = None  # a tensor that is added to the result
    data: int = 0
    weight: int = 1


def _forward(places: ConvolutionArguments) -> Callable[[OperatorCall], Work]:
    def rate(call: OperatorCall) -> Work:
        data, weight = _batched(call.tensor(places.data), call.tensor(places.weight))
        transposed = places.transposed if isinstance(places.transposed, bool) else call.flag(places.transposed)
        shape = (_spread if transposed else _slid)(call, places, data.shape, weight.shape)
        out = Tensor(shape, data.dtype)
        further = [call.optional(place) for place in (places.bias, places.added) if place is not None]
        tensors = [data, weight, out, *(tensor for tensor in further if tensor is not None)]
        return Work(
            flops=_flops(data if transposed else out, weight),
            bytes=sum(tensor.size_bytes for tensor in tensors),
            dtype=data.dtype.label,
            family="convolution",
        )

    return rate


def _flops(sliding: Tensor, weight: Tensor) -> int:
    """Every element of the tensor that has one value per window and channel meets the weights of its channel once."""
    if not weight.shape or not weight.shape[0]:
        raise UnknownWorkError
    return 2 * sliding.elements * prod(weight.shape[1:])


def _batched(data: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    if len(weight.shape) < 3:
        raise UnknownWorkError
    if len(data.shape) == len(weight.shape) - 1:
        strides = None if data.strides is None else (0, *data.strides)
        data = Tensor((1, *data.shape), data.dtype, strides)
    if len(data.shape) != len(weight.shape):
        raise UnknownWorkError
    return data, weight


def _setting(call: OperatorCall, place: int | None, count: int, default: int) -> Shape:
    return (default,) * count if place is None else call.spatial(place, count)


def _slid(call: OperatorCall, places: ConvolutionArguments, data: Shape, weight: Shape) -> Shape:
    """Shape of the result of a convolution."""
    count = len(data) - 2
    if not weight[1] or data[1] % weight[1]:
        raise UnknownWorkError
    stride, padding = call.spatial(places.stride, count), call.spatial(places.padding, count)
    dilation = _setting(call, places.dilation, count, 1)
    spatial = map(windows, data[2:], weight[2:], stride, padding, dilation)
    return (data[0], weight[0], *spatial)


def _spread(call: OperatorCall, places: ConvolutionArguments, data: Shape, weight: Shape) -> Shape:
    """Shape of the result of a transposed convolution."""
    count = len(data) - 2
    groups = 1 if places.groups is None else call.integer(places.groups)
    if weight[0] != data[1] or groups < 1:
        raise UnknownWorkError
    stride, padding = call.spatial(places.stride, count), call.spatial(places.padding, count)
    dilation, extra = _setting(call, places.dilation, count, 1), _setting(call, places.output_padding, count, 0)
    spatial = map(spread, data[2:], weight[2:], stride, padding, dilation, extra)
    return (data[0], weight[1] * groups, *spatial)


def _backward(call: OperatorCall) -> Work:
    """Each gradient that is wanted costs what the forward pass did."""
    return _gradients(call, transposed=call.flag(7), mask=call.flags(10, 3))


def _gradients(call: OperatorCall, *, transposed: bool, mask: tuple[bool, ...]) -> Work:
    gradient = call.tensor(0)
    data, weight = _batched(call.tensor(1), call.tensor(2))
    gradient, _ = _batched(gradient, weight)
    wants_data, wants_weight, wants_bias = mask
    read = gradient.size_bytes + wants_data * weight.size_bytes + wants_weight * data.size_bytes
    # Results are dense, whatever their counterparts were views of.
    written = wants_data * data.elements + wants_weight * weight.elements + wants_bias * gradient.shape[1]
    return Work(
        flops=(wants_data + wants_weight) * _flops(data if transposed else gradient, weight),
        bytes=read + written * data.dtype.size_bytes,
        dtype=data.dtype.label,
        family="convolution",
    )


def _data_gradient(call: OperatorCall) -> Work:
    """PyTorch up to 1.10. Where the size of the result was not recorded, its bytes are left out."""
    gradient, weight = _batched(call.tensor(1), call.tensor(2))
    out_bytes = prod(call.integers(0)) * gradient.dtype.size_bytes if call.value(0) else 0
    return Work(
        flops=_flops(gradient, weight),
        bytes=gradient.size_bytes + weight.size_bytes + out_bytes,
        dtype=gradient.dtype.label,
        family="convolution",
    )


def _weight_gradient(call: OperatorCall) -> Work:
    """PyTorch up to 1.10: the size of the weights is a scalar argument, which few of its traces hold."""
    gradient, data = call.tensor(1), call.tensor(2)
    weight = Tensor(call.integers(0), data.dtype)
    if len(weight.shape) < 3 or len(gradient.shape) != len(weight.shape):
        raise UnknownWorkError
    return Work(
        flops=_flops(gradient, weight),
        bytes=gradient.size_bytes + data.size_bytes + weight.size_bytes,
        dtype=data.dtype.label,
        family="convolution",
    )


_CUDNN = ConvolutionArguments(padding=2, stride=3, dilation=4, groups=5)
_CUDNN_TRANSPOSED = ConvolutionArguments(padding=2, output_padding=3, stride=4, dilation=5, groups=6, transposed=True)
_RELU = ConvolutionArguments(bias=2, stride=3, padding=4, dilation=5, groups=6)
_ADD_RELU = ConvolutionArguments(added=2, bias=4, stride=5, padding=6, dilation=7, groups=8)
_WITH_BIAS = ConvolutionArguments(bias=2, padding=3, stride=4, dilation=5, groups=6)
_WITH_BIAS_TRANSPOSED = ConvolutionArguments(
    bias=2, padding=3, output_padding=4, stride=5, dilation=6, groups=7, transposed=True
)
_GENERAL = ConvolutionArguments(bias=2, stride=3, padding=4, dilation=5, transposed=6, output_padding=7, groups=8)
_PUBLIC_TRANSPOSED = ConvolutionArguments(
    bias=2, stride=3, padding=4, output_padding=5, groups=6, dilation=7, transposed=True
)
_SLOW = ConvolutionArguments(bias=3, stride=4, padding=5)
_SLOW_DILATED = ConvolutionArguments(bias=3, stride=4, padding=5, dilation=6)
_SLOW_TRANSPOSED = ConvolutionArguments(bias=3, stride=4, padding=5, output_padding=6, dilation=7, transposed=True)

_PLACES = {
    "aten::convolution": _GENERAL,
    "aten::_convolution": _GENERAL,
    "aten::convolution_overrideable": _GENERAL,
    "aten::conv1d": _RELU,
    "aten::conv2d": _RELU,
    "aten::conv3d": _RELU,
    "aten::conv_transpose1d": _PUBLIC_TRANSPOSED,
    "aten::conv_transpose2d": _PUBLIC_TRANSPOSED,
    "aten::conv_transpose3d": _PUBLIC_TRANSPOSED,
    "aten::cudnn_convolution": _CUDNN,
    "aten::cudnn_convolution_transpose": _CUDNN_TRANSPOSED,
    "aten::cudnn_convolution_relu": _RELU,
    "aten::cudnn_convolution_add_relu": _ADD_RELU,
    "aten::miopen_convolution": _WITH_BIAS,
    "aten::miopen_depthwise_convolution": _WITH_BIAS,
    "aten::miopen_convolution_transpose": _WITH_BIAS_TRANSPOSED,
    "aten::miopen_convolution_relu": _RELU,
    "aten::miopen_convolution_add_relu": _ADD_RELU,
    "aten::mkldnn_convolution": _WITH_BIAS,
    "mkldnn::_convolution_pointwise": _WITH_BIAS,
    "mkldnn::_convolution_transpose_pointwise": _WITH_BIAS_TRANSPOSED,
    "aten::_slow_conv2d_forward": _SLOW,
    "aten::thnn_conv2d": _SLOW,
    "aten::slow_conv3d": _SLOW,
    "aten::slow_conv3d_forward": _SLOW,
    "aten::slow_conv_dilated2d": _SLOW_DILATED,
    "aten::slow_conv_dilated3d": _SLOW_DILATED,
    "aten::_conv_depthwise2d": _SLOW_DILATED,
    "aten::conv_depthwise3d": _SLOW_DILATED,
    "aten::slow_conv_transpose2d": _SLOW_TRANSPOSED,
    "aten::slow_conv_transpose3d": _SLOW_TRANSPOSED,
    "aten::_nnpack_spatial_convolution": ConvolutionArguments(bias=2, padding=3, stride=4),
}

CONVOLUTION_RULES: Mapping[str, Callable[[OperatorCall], Work]] = {
    **{name: _forward(places) for name, places in _PLACES.items()},
    "aten::convolution_backward": _backward,
    "aten::convolution_backward_overrideable": lambda call: _gradients(
        call, transposed=call.flag(6), mask=call.flags(9, 3)
    ),
    "aten::_slow_conv2d_backward": lambda call: _gradients(call, transposed=False, mask=call.flags(6, 3)),
    "aten::cudnn_convolution_backward_input": _data_gradient,
    "aten::miopen_convolution_backward_input": _data_gradient,
    "aten::mkldnn_convolution_backward_input": _data_gradient,
    "aten::cudnn_convolution_backward_weight": _weight_gradient,
    "aten::miopen_convolution_backward_weight": _weight_gradient,
    "aten::mkldnn_convolution_backward_weights": _weight_gradient,
}
