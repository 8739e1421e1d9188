"""Gathering and scattering by index. Rows that are asked for again count again, up to the size of the table."""

from collections.abc import Callable, Mapping

from redline.roofline.arguments import OperatorCall, Tensor, UnknownWorkError
from redline.roofline.shapes import replaced
from redline.roofline.traffic import bytes_of, dense, moved
from redline.roofline.work import Work

FAMILY = "index"
EMBEDDING = "embedding"


def _picked(family: str, table: Tensor, index: Tensor, out: Tensor) -> Work:
    """Reads the index and as many elements as the result has, at most the table; writes the result."""
    read = min(out.elements * table.dtype.size_bytes, table.size_bytes)
    return Work(flops=0, bytes=read + bytes_of((index, out)), dtype=table.dtype.label, family=family)


def _index_select(call: OperatorCall) -> Work:
    table, index = call.tensor(0), call.tensor(2)
    shape = replaced(table.shape, call.integer(1), index.elements)
    return _picked(FAMILY, table, index, dense(shape, table.dtype))


def _gather(call: OperatorCall) -> Work:
    table, index = call.tensor(0), call.tensor(2)
    return _picked(FAMILY, table, index, dense(index.shape, table.dtype))


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
        return Work(flops=0, bytes=total, dtype=target.dtype.label, family=FAMILY)

    return rate


def _rows(*, adds: bool) -> Callable[[OperatorCall], Work]:
    """In place: rows of the target take or add the rows of a source."""

    def rate(call: OperatorCall) -> Work:
        target, index, source = call.tensor(0), call.tensor(2), call.tensor(3)
        touched = source.elements * target.dtype.size_bytes * (2 if adds else 1)
        total = bytes_of((index, source)) + touched
        return Work(flops=0, bytes=total, dtype=target.dtype.label, family=FAMILY)

    return rate


def _put(call: OperatorCall) -> Work:
    """The indices are not recorded. A single value may go anywhere; several are at least written once."""
    target, values, adds = call.tensor(0), call.tensor(2), call.flag(3)
    if values.elements < 2:
        raise UnknownWorkError
    touched = values.elements * target.dtype.size_bytes * (2 if adds else 1)
    return Work(flops=0, bytes=values.size_bytes + touched, dtype=target.dtype.label, family=FAMILY)


RULES: Mapping[str, Callable[[OperatorCall], Work]] = {
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
