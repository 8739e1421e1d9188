"""A tensor in 256 numbers that still tell how far it is from another one, to any relative precision.

The sketch is linear: sketch(a) - sketch(b) = sketch(a - b), so two runs that never met can be compared where their
norms agree to the last digit. Each element is added to, or taken from, one of 256 sums, which one its index decides.
So parts of a tensor are sketched apart, by the index that their elements have in the whole, and their sketches add up.
The first 256 elements have a sum of their own each: a small tensor is kept whole.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

import torch

from redline.capture.number_check import SKETCH_SIZE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

_CHUNK = 1 << 16  # elements that are worked on at a time
_KEPT_CHUNKS = 32
_FACTORS = (-7046029254386353131, -4658895280553007687, -7723592293110705685)  # odd, half of their bits set


@dataclass
class PartialSketch:
    """What was added up of one tensor, or of a part of it."""

    sums: Tensor  # those that are added, and then those that are taken away
    square_sum: float = 0.0
    elements: int = 0
    non_finite: int = 0

    @classmethod
    def empty(cls) -> PartialSketch:
        with torch.inference_mode(False):  # in which the script may call a module, and add to it later outside
            return cls(torch.zeros(2 * SKETCH_SIZE, dtype=torch.float64, device="cpu"))

    def numbers(self) -> list[float]:
        folded: list[float] = (self.sums[:SKETCH_SIZE] - self.sums[SKETCH_SIZE:]).tolist()
        return folded


def add_to_sketch(sketch: PartialSketch, values: Tensor, index: Tensor | None, offset: int) -> bytes:
    """Add a tensor, whose elements have this index in the whole, else follow one another; gives a hash of its bits."""
    digest = blake2b(digest_size=16)
    flat = values.detach().contiguous().reshape(-1)
    if flat.is_complex():
        raise TypeError("complex tensors are handed over as real ones")
    for begin in range(0, flat.numel(), _CHUNK):
        piece = flat[begin : begin + _CHUNK].to("cpu")
        digest.update(_bytes_of(piece))
        if index is None:
            buckets = _buckets_from(offset + begin, piece.numel())
        else:
            buckets = buckets_of(index[begin : begin + _CHUNK] + offset)
        _add_piece(sketch, piece, buckets)
    return digest.digest()


def _add_piece(sketch: PartialSketch, piece: Tensor, buckets: Tensor) -> None:
    numbers = piece.to(torch.float64)
    finite = torch.isfinite(numbers)
    lost = numbers.numel() - int(finite.sum())
    if lost:
        numbers = torch.where(finite, numbers, torch.zeros((), dtype=torch.float64, device="cpu"))
    sketch.non_finite += lost
    sketch.elements += numbers.numel()
    sketch.square_sum += float(numbers.square().sum())
    sketch.sums += torch.bincount(buckets, weights=numbers, minlength=2 * SKETCH_SIZE)


def _bytes_of(piece: Tensor) -> ctypes.Array[ctypes.c_char]:
    """Those of a tensor in the memory of the host, without a copy, and without numpy, which may not be there."""
    return (ctypes.c_char * (piece.numel() * piece.element_size())).from_address(piece.data_ptr())


def _buckets_from(first: int, count: int) -> Tensor:
    """Of elements that follow one another; those of the first elements of any tensor are kept."""
    if first % _CHUNK == 0 and first < _KEPT_CHUNKS * _CHUNK:
        return _kept_buckets(first)[:count]
    return buckets_of(torch.arange(first, first + count, device="cpu"))


@lru_cache(maxsize=_KEPT_CHUNKS)
def _kept_buckets(first: int) -> Tensor:
    return buckets_of(torch.arange(first, first + _CHUNK, device="cpu"))


def buckets_of(index: Tensor) -> Tensor:
    """The sum that each element belongs to: below SKETCH_SIZE it is added, from there on taken away."""
    hashed = index + 1
    for factor in _FACTORS:
        hashed = hashed * factor
        hashed = hashed ^ (hashed >> 31)
    hashed = (hashed >> 20) & (2 * SKETCH_SIZE - 1)
    return torch.where(index < SKETCH_SIZE, index, hashed)


def tensors_in(output: object, depth: int = 3) -> Iterator[tuple[str, Tensor]]:
    """The floating-point tensors of what a module returned, each with where in it: "" or `[0]` or `.logits`."""
    if isinstance(output, torch.Tensor):
        if output.is_floating_point() or output.is_complex():
            yield "", output
    elif depth and isinstance(output, dict):
        for key, value in output.items():
            yield from ((f".{key}{where}", tensor) for where, tensor in tensors_in(value, depth - 1))
    elif depth and isinstance(output, tuple | list):
        for number, value in enumerate(output):
            yield from ((f"[{number}]{where}", tensor) for where, tensor in tensors_in(value, depth - 1))
    elif depth and hasattr(output, "__dataclass_fields__"):
        for name in output.__dataclass_fields__:
            found = tensors_in(getattr(output, name, None), depth - 1)
            yield from ((f".{name}{where}", tensor) for where, tensor in found)
