"""Pooling and resampling of images and signals."""

from collections.abc import Callable, Mapping

from redline.roofline.arguments import OperatorCall, Shape, Tensor, UnknownWorkError
from redline.roofline.dtypes import INT64
from redline.roofline.shapes import windows
from redline.roofline.traffic import dense, like, moved
from redline.roofline.work import Work

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

RULES: Mapping[str, Callable[[OperatorCall], Work]] = {
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
