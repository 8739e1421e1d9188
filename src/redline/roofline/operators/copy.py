"""Operators that move numbers: copies, fills and joins, rows picked by index, optimizer steps over lists of tensors."""

from collections.abc import Callable, Mapping

from redline.roofline.arguments import OperatorCall, Tensor, TensorList, UnknownWorkError
from redline.roofline.sizes import Work, bytes_of, dense, like, moved, replaced

EMBEDDING = "embedding"


def _picked(family: str, table: Tensor, index: Tensor, out: Tensor) -> Work:
    """Reads the index and as many elements as the result has, at most the table; writes the result."""
    read = min(out.elements * table.dtype.size_bytes, table.size_bytes)
    return Work(flops=0, bytes=read + bytes_of((index, out)), dtype=table.dtype.label, family=family)


def _index_select(call: OperatorCall) -> Work:
    table, index = call.tensor(0), call.tensor(2)
    shape = replaced(table.shape, call.integer(1), index.elements)
    return _picked("index", table, index, dense(shape, table.dtype))


def _gather(call: OperatorCall) -> Work:
    table, index = call.tensor(0), call.tensor(2)
    return _picked("index", table, index, dense(index.shape, table.dtype))


def _embedding(call: OperatorCall) -> Work:
    table, index = call.tensor(0, 2), call.tensor(1)
    return _picked(EMBEDDING, table, index, dense((*index.shape, table.shape[1]), table.dtype))


def _embedding_backward(call: OperatorCall) -> Work:
    """A dense gradient for the whole table."""
    gradient, index, rows = call.tensor(0), call.tensor(1), call.integer(2)
    if not gradient.shape or rows < 0:
        raise UnknownWorkError
    return moved(EMBEDDING, gradient.dtype, gradient, index, dense((rows, gradient.shape[-1]), gradient.dtype))


def _scatter(*, adds: bool) -> Callable[[OperatorCall], Work]:
    """In place: as many elements of the target are written (and read, to add) as the index has."""

    def rate(call: OperatorCall) -> Work:
        target, index, source = call.tensor(0), call.tensor(2), call.optional(3)
        touched = index.elements * target.dtype.size_bytes
        read = 0 if source is None else min(source.size_bytes, index.elements * source.dtype.size_bytes)
        total = index.size_bytes + read + touched * (2 if adds else 1)
        return Work(flops=0, bytes=total, dtype=target.dtype.label, family="index")

    return rate


def _rows(*, adds: bool) -> Callable[[OperatorCall], Work]:
    """In place: rows of the target take or add the rows of a source."""

    def rate(call: OperatorCall) -> Work:
        target, index, source = call.tensor(0), call.tensor(2), call.tensor(3)
        touched = source.elements * target.dtype.size_bytes * (2 if adds else 1)
        total = bytes_of((index, source)) + touched
        return Work(flops=0, bytes=total, dtype=target.dtype.label, family="index")

    return rate


def _put(call: OperatorCall) -> Work:
    """The indices are not recorded. A single value may go anywhere; several are at least written once."""
    target, values, adds = call.tensor(0), call.tensor(2), call.flag(3)
    if values.elements < 2:
        raise UnknownWorkError
    touched = values.elements * target.dtype.size_bytes * (2 if adds else 1)
    return Work(flops=0, bytes=values.size_bytes + touched, dtype=target.dtype.label, family="index")


INDEX_RULES: Mapping[str, Callable[[OperatorCall], Work]] = {
    "aten::index_select": _index_select,
    "aten::gather": _gather,
    "aten::embedding": _embedding,
    "aten::embedding_dense_backward": _embedding_backward,
    "aten::scatter_": _scatter(adds=False),
    "aten::scatter_add_": _scatter(adds=True),
    "aten::index_copy_": _rows(adds=False),
    "aten::index_add_": _rows(adds=True),
    "aten::_index_put_impl_": _put,
    "aten::index_put_": _put,
}


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
    return Work(flops=0, bytes=total, dtype="" if dtype is None else dtype.label, family="optimizer")


def _list_mapped(call: OperatorCall) -> Work:
    """Reads all lists, writes the first or one like it."""
    lists = _lists(call)
    return _moved([*lists, lists[0]])


def _written(call: OperatorCall) -> Work:
    return _moved(_lists(call)[:1])


def _list_copied(call: OperatorCall) -> Work:
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

OPTIMIZER_RULES: Mapping[str, Callable[[OperatorCall], Work]] = {
    **{f"aten::_foreach_{name}{suffix}": _list_mapped for name in _FOREACH.split() for suffix in ("", "_")},
    "aten::_foreach_copy_": _list_copied,
    "aten::_foreach_zero_": _written,
    "aten::_foreach_norm": _written,  # reads as much, and its results are few
    "aten::_foreach_max": _written,
    "aten::_amp_foreach_non_finite_check_and_unscale_": _list_mapped,
    "aten::_fused_adam_": _ADAM,
    "aten::_fused_adamw_": _ADAM,
    "aten::_fused_sgd_": _fused(read=(0, 1, 2), written=(0, 2)),
    "aten::_fused_adagrad_": _fused(read=(0, 1, 2), written=(0, 2)),
}


_FILLED = ("fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "log_normal_", "cauchy_")


def _copy_into(call: OperatorCall) -> Work:
    target, source = call.tensor(0), call.tensor(1)
    return moved("copy", source.dtype, source, target)


def _copied(dtype_place: int | None) -> Callable[[OperatorCall], Work]:
    """A new tensor with the elements of another, perhaps in another type."""

    def rate(call: OperatorCall) -> Work:
        source = call.tensor(0)
        dtype = None if dtype_place is None else call.dtype_argument(dtype_place)
        return moved("copy", source.dtype, source, dense(source.shape, dtype or source.dtype))

    return rate


def _fill(call: OperatorCall) -> Work:
    """What was there is not read."""
    return moved("copy", call.tensor(0).dtype, call.tensor(0))


def _join(call: OperatorCall) -> Work:
    """The type of the parts is known from an `out` tensor, else from the kernel."""
    parts, out = call.tensor_list(0), call.optional(2)
    if out is None:
        size, label = parts.size_bytes, parts.dtype.label if parts.dtype is not None else ""
    else:
        size = sum(dense(shape, out.dtype).size_bytes for shape in parts.shapes)
        label = out.dtype.label
    return Work(flops=0, bytes=2 * size, dtype=label, family="copy")


def _repeat(call: OperatorCall) -> Work:
    """aten::repeat"""
    source, times = call.tensor(0), call.integers(1)
    shape = (*(1,) * (len(times) - len(source.shape)), *source.shape)
    repeated = tuple(size * count for size, count in zip(shape, times, strict=False))
    return moved("copy", source.dtype, source, dense(repeated, source.dtype))


def _ones_like(call: OperatorCall) -> Work:
    return moved("copy", call.tensor(0).dtype, like(call.tensor(0)))


COPY_RULES: Mapping[str, Callable[[OperatorCall], Work]] = {
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
