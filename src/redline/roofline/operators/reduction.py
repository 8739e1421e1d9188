"""Reductions: all of the input is read, the result is as small as the dimensions that are left. Scans, sorting."""

from collections.abc import Callable, Mapping

from redline.roofline.arguments import OperatorCall, Shape, UnknownWorkError
from redline.roofline.dtypes import BOOL, INT64, Category, Dtype
from redline.roofline.operators.elementwise import RULES as ELEMENTWISE
from redline.roofline.shapes import replaced, without
from redline.roofline.traffic import dense, like, moved
from redline.roofline.work import Work

FAMILY = "reduction"
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
    return moved(FAMILY, data.dtype, data, *outputs, dense(shape, INT64) if indices else None)


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
        return ELEMENTWISE["aten::maximum"](call)
    if len(call.types) == 1:
        return _reduced(call, None)
    return _reduced(call, 1, indices=True)


def _along(place: int, dtype: Dtype | None = None) -> Callable[[OperatorCall], Work]:
    return lambda call: _reduced(call, place, dtype)


def _norm(call: OperatorCall) -> Work:
    return _reduced(call, 2 if len(call.types) > 3 else None)


def _spread(results: int) -> Callable[[OperatorCall], Work]:
    """var and std: (self, unbiased), or (self, dimensions, correction, keep)."""
    return lambda call: _reduced(call, 1 if len(call.types) > 2 else None, results=results)


def _scan(call: OperatorCall) -> Work:
    data = call.tensor(0)
    whole = data.dtype.category < Category.FLOATING
    dtype = call.dtype_argument(2) or (INT64 if whole else data.dtype)
    return moved(FAMILY, data.dtype, data, dense(data.shape, dtype))


def _sorted(call: OperatorCall) -> Work:
    data = call.tensor(0)
    return moved(SORTING, data.dtype, data, like(data), dense(data.shape, INT64))


def _top(call: OperatorCall) -> Work:
    data = call.tensor(0)
    shape = replaced(data.shape, call.integer(2), call.integer(1))
    return moved(SORTING, data.dtype, data, dense(shape, data.dtype), dense(shape, INT64))


RULES: Mapping[str, Callable[[OperatorCall], Work]] = {
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
    "aten::norm": _norm,
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
