"""Operators on lists of tensors: optimizers, and the element-wise operators that they are made of."""

from collections.abc import Callable, Mapping

from redline.roofline.arguments import OperatorCall, TensorList, UnknownWorkError
from redline.roofline.work import Work

FAMILY = "optimizer"


def _lists(call: OperatorCall) -> list[TensorList]:
    """The lists of a call. As the first has tensors, another that shows none was empty and not merely too long."""
    first = call.tensor_list(0)
    others = [argument for argument in call.arguments[1:] if isinstance(argument, TensorList)]
    if any(other.shapes and len(other.shapes) != len(first.shapes) for other in others):
        raise UnknownWorkError
    return [first, *others]


def _moved(lists: list[TensorList]) -> Work:
    dtype = lists[0].dtype
    total = sum(tensor_list.size_bytes for tensor_list in lists)
    return Work(flops=0, bytes=total, dtype="" if dtype is None else dtype.label, family=FAMILY)


def _mapped(call: OperatorCall) -> Work:
    """Reads all lists, writes the first or one like it."""
    lists = _lists(call)
    return _moved([*lists, lists[0]])


def _written(call: OperatorCall) -> Work:
    return _moved(_lists(call)[:1])


def _copied(call: OperatorCall) -> Work:
    return _moved(_lists(call)[:2])


def _fused(read: tuple[int, ...], written: tuple[int, ...]) -> Callable[[OperatorCall], Work]:
    """One pass over parameters, gradients and states. Step counters are left out."""

    def rate(call: OperatorCall) -> Work:
        lists = dict(enumerate(_lists(call)))
        return _moved([lists[place] for place in (*read, *written) if place in lists])

    return rate


_ADAM = _fused(read=(0, 1, 2, 3, 4), written=(0, 2, 3, 4))

_FOREACH = (
    "add sub mul div pow neg abs sqrt rsqrt reciprocal exp expm1 log log1p sigmoid tanh sign floor ceil round trunc "
    "frac maximum minimum clamp_min clamp_max lerp addcmul addcdiv"
)

RULES: Mapping[str, Callable[[OperatorCall], Work]] = {
    **{f"aten::_foreach_{name}{suffix}": _mapped for name in _FOREACH.split() for suffix in ("", "_")},
    "aten::_foreach_copy_": _copied,
    "aten::_foreach_zero_": _written,
    "aten::_foreach_norm": _written,  # reads as much, and its results are few
    "aten::_foreach_max": _written,
    "aten::_amp_foreach_non_finite_check_and_unscale_": _mapped,
    "aten::_fused_adam_": _ADAM,
    "aten::_fused_adamw_": _ADAM,
    "aten::_fused_sgd_": _fused(read=(0, 1, 2), written=(0, 2)),
    "aten::_fused_adagrad_": _fused(read=(0, 1, 2), written=(0, 2)),
}
