"""Arithmetic on shapes: broadcasting, dimensions that vanish, windows that slide."""

from collections.abc import Iterable

from redline.roofline.arguments import Shape, UnknownWorkError


def broadcast(shapes: Iterable[Shape]) -> Shape:
    """The shape that all of these stretch to."""
    result: list[int] = []  # from the last dimension on
    for shape in shapes:
        for place, size in enumerate(reversed(shape)):
            if place == len(result):
                result.append(size)
            elif result[place] == 1:
                result[place] = size
            elif size not in {1, result[place]}:
                raise UnknownWorkError
    return tuple(reversed(result))


def dimension(index: int, count: int) -> int:
    """A dimension counted from the front; the profiler records -1 for the last."""
    position = index + count if index < 0 else index
    if not 0 <= position < max(count, 1):
        raise UnknownWorkError
    return position


def without(shape: Shape, dimensions: Iterable[int]) -> Shape:
    """What is left of a shape when these dimensions are reduced; all of them where none is named."""
    gone = {dimension(index, len(shape)) for index in dimensions} or set(range(len(shape)))
    return tuple(size for place, size in enumerate(shape) if place not in gone)


def replaced(shape: Shape, index: int, size: int) -> Shape:
    """The shape with another size in one dimension."""
    place = dimension(index, len(shape))
    return (*shape[:place], size, *shape[place + 1 :])


def windows(size: int, kernel: int, stride: int, padding: int, dilation: int, *, ceil: bool = False) -> int:
    """How often a window fits: the output size of a convolution or a pooling along one dimension."""
    if stride < 1 or kernel < 1 or padding < 0 or dilation < 1:
        raise UnknownWorkError
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    if room < 0:
        raise UnknownWorkError
    count = -(-room // stride) + 1 if ceil else room // stride + 1
    # The last window of a rounded-up count must begin inside the input or its left padding.
    return count - 1 if ceil and (count - 1) * stride >= size + padding else count


def spread(size: int, kernel: int, stride: int, padding: int, dilation: int, extra: int) -> int:
    """The output size of a transposed convolution along one dimension."""
    if stride < 1 or kernel < 1 or padding < 0 or dilation < 1 or extra < 0:
        raise UnknownWorkError
    spread_size = (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + extra + 1
    if spread_size < 0:
        raise UnknownWorkError
    return spread_size
