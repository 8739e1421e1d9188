"""Element by element: inputs stretch to a common shape, the result has it."""

from collections.abc import Callable, Mapping
from functools import reduce

from redline.roofline.arguments import OperatorCall, Tensor, UnknownWorkError
from redline.roofline.dtypes import BOOL, FP32, Category, Dtype, promoted
from redline.roofline.sizes import Work, broadcast, dense, like, moved


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Arguments before a result that is passed as `out`; further ones in the call are results.
_UNARY = words(
    "abs neg exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal sin cos tan asin acos atan sinh cosh "
    "tanh asinh acosh atanh sigmoid relu relu6 silu mish erf erfc erfinv floor ceil trunc frac round sign sgn positive "
    "hardsigmoid hardswish selu bitwise_not logical_not lgamma digamma i0 sinc deg2rad rad2deg "
    "conj_physical"
)
# One tensor, then so many scalars.
_WITH_SCALARS = {
    "gelu": 1,
    "celu": 1,
    "elu": 3,
    "leaky_relu": 1,
    "hardtanh": 2,
    "threshold": 2,
    "softplus": 2,
    "hardshrink": 1,
    "softshrink": 1,
    "nan_to_num": 3,
    "logit": 1,
    "flip": 1,
    "roll": 2,
    "tril": 1,
    "triu": 1,
}
_BINARY = words(
    "mul div true_divide floor_divide remainder fmod pow atan2 maximum minimum fmax fmin bitwise_and bitwise_or "
    "bitwise_xor logaddexp hypot copysign xlogy prelu bitwise_left_shift bitwise_right_shift __and__ __or__ __xor__"
)
_BINARY_SCALED = ["add", "sub", "rsub"]  # with alpha
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor")
_TESTS = ("isnan", "isinf", "isfinite", "isposinf", "isneginf", "signbit")
_NOT_IN_PLACE = words(
    "positive hardshrink softplus softshrink flip roll fmax fmin maximum minimum logaddexp prelu rsub __and__ __or__ "
    "__xor__"
)
_TERNARY = {"addcmul": 4, "addcdiv": 4, "lerp": 3, "clamp": 3, "clamp_min": 2, "clamp_max": 2, "masked_fill": 3}
# gradient of the result and one or two saved tensors, then scalars
_BACKWARDS = {
    "threshold_backward": 2,
    "sigmoid_backward": 2,
    "tanh_backward": 2,
    "gelu_backward": 2,
    "silu_backward": 2,
    "elu_backward": 2,
    "leaky_relu_backward": 2,
    "hardtanh_backward": 2,
    "hardsigmoid_backward": 2,
    "hardswish_backward": 2,
    "softplus_backward": 2,
    "mish_backward": 2,
    "logit_backward": 2,
    "log_sigmoid_backward": 3,
    "native_dropout_backward": 2,
}


def _inputs(call: OperatorCall, count: int) -> list[Tensor]:
    tensors = [tensor for tensor in map(call.optional, range(count)) if tensor is not None]
    if not tensors:
        raise UnknownWorkError
    return tensors


def result_dtype(call: OperatorCall, inputs: list[Tensor], count: int) -> Dtype:
    """As PyTorch promotes: tensors without dimensions and scalars count only where they are of a higher category."""
    sized = [tensor.dtype for tensor in inputs if tensor.shape]
    dtype = reduce(promoted, sized or [tensor.dtype for tensor in inputs])
    weak = [tensor.dtype.category for tensor in inputs if not tensor.shape]
    weak += [Category.FLOATING for place in range(count) if _is_fraction(call, place)]
    # A Python float beside integers makes float, not double; a tensor may make double, which is not told apart.
    return FP32 if dtype.category < Category.FLOATING and Category.FLOATING in weak else dtype


def _is_fraction(call: OperatorCall, place: int) -> bool:
    """Tell whether a scalar argument is a Python float."""
    if place >= len(call.types) or call.types[place] not in {"Scalar", "Double"}:
        return False
    text = call.value(place)
    return call.types[place] == "Double" or "." in text or "e" in text or text in {"inf", "-inf", "nan"}


def _mapped(count: int, fixed: Dtype | None = None, *, fractional: bool = False) -> Callable[[OperatorCall], Work]:
    """Reads `count` arguments and writes a result of their common shape."""

    def rate(call: OperatorCall) -> Work:
        inputs = _inputs(call, count)
        shape = broadcast(tensor.shape for tensor in inputs)
        out = next((tensor for tensor in map(call.optional, range(count, len(call.types))) if tensor is not None), None)
        dtype = out.dtype if out is not None else fixed or result_dtype(call, inputs, count)
        if out is None and fractional and dtype.category < Category.FLOATING:
            dtype = FP32
        return moved("elementwise", _widest(inputs), *inputs, dense(shape, dtype))

    return rate


def _in_place(count: int) -> Callable[[OperatorCall], Work]:
    """Reads its arguments and writes the first of them."""

    def rate(call: OperatorCall) -> Work:
        target, inputs = call.tensor(0), _inputs(call, count)
        if broadcast(tensor.shape for tensor in inputs) != target.shape:
            raise UnknownWorkError
        return moved("elementwise", target.dtype, *inputs, target)

    return rate


def _widest(inputs: list[Tensor]) -> Dtype:
    """The type of the data that matters most."""
    return max(inputs, key=lambda tensor: tensor.size_bytes).dtype


def _where(call: OperatorCall) -> Work:
    condition, *choices = _inputs(call, 3)
    if call.optional(0) is None or not choices:
        raise UnknownWorkError
    shape = broadcast(tensor.shape for tensor in (condition, *choices))
    return moved("elementwise", _widest(choices), condition, *choices, dense(shape, result_dtype(call, choices, 3)))


def _dropout(call: OperatorCall) -> Work:
    """The result, and which elements were kept."""
    data = call.tensor(0)
    return moved("elementwise", data.dtype, data, like(data), dense(data.shape, BOOL))


def _glu(call: OperatorCall) -> Work:
    data = call.tensor(0)
    half = dense((data.elements // 2,), data.dtype)
    return moved("elementwise", data.dtype, data, half)


def _log_sigmoid_forward(call: OperatorCall) -> Work:
    data = call.tensor(0)
    return moved("elementwise", data.dtype, data, like(data))


def _rules() -> dict[str, Callable[[OperatorCall], Work]]:
    counts = {
        **dict.fromkeys(_UNARY, 1),
        **{name: 1 + scalars for name, scalars in _WITH_SCALARS.items()},
        **dict.fromkeys(_BINARY, 2),
        **dict.fromkeys(_BINARY_SCALED, 3),
        **_TERNARY,
    }
    keeps_integers = {"abs", "neg", "sign", "sgn", "floor", "ceil", "trunc", "round", "square", "relu", "positive"}
    rules: dict[str, Callable[[OperatorCall], Work]] = {}
    for name, count in counts.items():
        fractional = (name in _UNARY and name not in keeps_integers) or name in {"div", "true_divide"}
        fractional &= name not in {"bitwise_not", "logical_not", "conj_physical"}
        rules[f"aten::{name}"] = _mapped(count, BOOL if name == "logical_not" else None, fractional=fractional)
        if name not in _NOT_IN_PLACE:
            rules[f"aten::{name}_"] = _in_place(count)
    for name in _COMPARISONS:
        rules[f"aten::{name}"] = _mapped(2, BOOL)
        rules[f"aten::{name}_"] = _in_place(2)
    for name in _TESTS:
        rules[f"aten::{name}"] = _mapped(1, BOOL)
    for name, count in _BACKWARDS.items():
        rules[f"aten::{name}"] = _mapped(count)
    return rules


ELEMENTWISE_RULES: Mapping[str, Callable[[OperatorCall], Work]] = {
    **_rules(),
    "aten::where": _where,
    "aten::native_dropout": _dropout,
    "aten::_fused_dropout": _dropout,
    "aten::glu": _glu,
    "aten::log_sigmoid_forward": _log_sigmoid_forward,
    "aten::__iand__": _in_place(2),
    "aten::__ior__": _in_place(2),
    "aten::__ixor__": _in_place(2),
}
