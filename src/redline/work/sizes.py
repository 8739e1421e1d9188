"""Sizes of the tensors of a call as recorded: of any call, and of matrix products by what each size means."""

from dataclasses import dataclass
from math import prod

import msgspec

_SHAPES = msgspec.json.Decoder(list[list[int | list[int]]])

# Where each product takes its left matrix; the right one follows.
_LEFT = {"aten::mm": 0, "aten::bmm": 0, "aten::addmm": 1, "aten::baddbmm": 1, "aten::linear": 0}
_BATCHED = frozenset({"aten::bmm", "aten::baddbmm"})
PRODUCTS = frozenset(_LEFT)


@dataclass(frozen=True, slots=True)
class BatchedMatmul:
    """[batch, rows, inner] times [batch, inner, columns]."""

    batch: int
    rows: int
    inner: int
    columns: int


def shapes_of(text: str) -> tuple[tuple[int, ...], ...]:
    """Of each argument; () for scalars, lists of tensors and text that is damaged."""
    try:
        arguments = _SHAPES.decode(text)
    except (msgspec.MsgspecError, ValueError):  # ValueError: text that is no UTF-8
        return ()
    return tuple(
        tuple(size for size in sizes if isinstance(size, int)) if not any(isinstance(s, list) for s in sizes) else ()
        for sizes in arguments
    )


def elements_of(text: str) -> frozenset[int]:
    """Of all tensors with more than one element."""
    return frozenset(prod(shape) for shape in shapes_of(text) if shape) - {0, 1}


def product_of(name: str, text: str) -> BatchedMatmul | None:
    """None for any other operator, and where shapes were not recorded."""
    shapes, place = shapes_of(text), _LEFT.get(name)
    if place is None or len(shapes) < place + 2:
        return None
    left, right = shapes[place], shapes[place + 1]
    if name == "aten::linear":
        left, right = (prod(left[:-1]), *left[-1:]), right[::-1]
    dimensions = 3 if name in _BATCHED else 2
    if not len(left) == len(right) == dimensions or left[-1] != right[-2]:
        return None
    return BatchedMatmul(prod(left[:-2]), left[-2], left[-1], right[-1])
