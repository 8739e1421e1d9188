"""The tensors of a run as sketches, by step, kind and name; where the recording stands; and the file of it."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from array import array
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b

import torch

from redline.capture.number_check import FILE_ENDING, FILE_KIND, FILE_SCHEMA, SKETCH_SIZE
from redline.capture.worker.exception_origin import pass_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from torch import Tensor

    from redline.capture.number_check import NumberCheck
    from redline.capture.worker.process_context import ProcessContext

_CHUNK = 1 << 16  # elements that are worked on at a time
_KEPT_CHUNKS = 32
_FACTORS = (-7046029254386353131, -4658895280553007687, -7723592293110705685)  # odd, half of their bits set
_MOST_LETTERS = 300


@dataclass
class RecordedTensor:
    """One tensor of a step: what one call returned, or the calls for all parts of a batch, one after the other."""

    sketch: PartialSketch
    copy: str
    dtype: str
    shapes: list[tuple[int, ...]] = field(default_factory=list)  # of the wholes of its parts
    hashes: list[str] = field(default_factory=list)

    def shape(self) -> list[int]:
        """Parts that follow one another are one batch."""
        first = self.shapes[0]
        if len(self.shapes) == 1:
            return list(first)
        if first and all(shape[1:] == first[1:] and shape for shape in self.shapes):
            return [sum(shape[0] for shape in self.shapes), *first[1:]]
        return [sum(_count(shape) for shape in self.shapes), 1]


class NumbersRecording:
    """The numbers that were recorded so far."""

    def __init__(self) -> None:
        self.tensors: dict[tuple[int, str, str], RecordedTensor] = {}
        self.notes: dict[str, None] = {}

    def add(
        self, step: int, kind: str, name: str, tensor: Tensor, *, factor: float = 1.0, summed: bool = False
    ) -> None:
        """Add a tensor to what there is of this name: as a part that follows, or as a summand."""
        part = local_part(tensor)
        if part is None:
            self.notes[f"not recorded: {kind} {name!r}, a {type(tensor).__name__}"] = None
            return
        known = self.tensors.get((step, kind, name))
        if known is None:
            dtype = str(part.values.dtype).removeprefix("torch.")
            known = self.tensors[step, kind, name] = RecordedTensor(PartialSketch.empty(), part.copy, dtype)
        offset = 0 if summed else sum(_count(shape) for shape in known.shapes)
        values = part.values if factor == 1.0 else part.values.to(torch.float64) * factor
        known.hashes.append(add_to_sketch(known.sketch, values, part.index, offset).hex())
        if not (summed and known.shapes):
            known.shapes.append(part.shape)

    def add_difference(self, step: int, kind: str, name: str, tensor: Tensor, start: RecordedTensor) -> None:
        """How far a tensor has come from where it started. No copy of it is needed: sketches can be subtracted."""
        self.add(step, kind, name, tensor)
        known = self.tensors.get((step, kind, name))
        if known is not None:
            known.sketch.sums -= start.sketch.sums
            numbers = torch.tensor(known.sketch.numbers(), dtype=torch.float64, device="cpu")
            known.sketch.square_sum = float(numbers.square().sum())

    def keep_only(self, step: int, kind: str) -> None:
        """Forget all but what is of this step, which becomes the first, or of this kind."""
        kept = {key: tensor for key, tensor in self.tensors.items() if key[0] == step or key[1] == kind}
        self.tensors = {(0, *key[1:]): tensor for key, tensor in kept.items()}

    def write(self, folder: str, rank: int, facts: Mapping[str, object]) -> None:
        """The file of this rank: a line of JSON, and then all sketches as 8-byte floats."""
        from redline.artifacts import Envelope

        data = array("d")
        entries = []
        for (step, kind, name), tensor in self.tensors.items():
            shape = tensor.shape()
            numbers = tensor.sketch.numbers()[: min(SKETCH_SIZE, _count(shape))]
            data.extend(numbers)
            entries.append({
                "step": step, "kind": kind, "name": name, "shape": shape, "dtype": tensor.dtype, "copy": tensor.copy,
                "square_sum": tensor.sketch.square_sum, "non_finite": tensor.sketch.non_finite,
                "hash": "".join(tensor.hashes), "numbers": len(numbers),
            })  # fmt: skip
        if sys.byteorder == "big":
            data.byteswap()
        made_by = Envelope(kind=FILE_KIND, schema_version=FILE_SCHEMA, made_by="redline run")
        content = {**made_by.to_dict(), **facts, "rank": rank, "notes": list(self.notes), "tensors": entries}
        path = f"{folder}/rank-{rank}{FILE_ENDING}"
        with open(f"{path}.part", "wb") as file:  # noqa: PTH123 (pathlib is slow to import)
            file.write(json.dumps(content, separators=(",", ":")).encode() + b"\n")
            file.write(data.tobytes())
        os.replace(f"{path}.part", path)  # noqa: PTH105


def _count(shape: list[int] | tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


# The sketch is linear: sketch(a) - sketch(b) = sketch(a - b), so two runs that never met can be compared where their
# norms agree to the last digit. Each element is added to, or taken from, one of 256 sums, which one its index decides.
# So parts of a tensor are sketched apart, by the index that their elements have in the whole, and their sketches add
# up. The first 256 elements have a sum of their own each: a small tensor is kept whole.
@dataclass
class PartialSketch:
    """The sums of one tensor, or of a part of it."""

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
    """Buckets of elements that follow one another; those of the first elements of any tensor are kept."""
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


@dataclass(frozen=True)
class LocalPart:
    """The part of a tensor that this process has."""

    values: Tensor
    shape: tuple[int, ...]  # of the whole
    index: Tensor | None = None  # of its elements in the whole; None where they are all
    copy: str = ""  # parts that belong to one copy of the tensor say the same; "" for a copy of this process alone


def local_part(tensor: Tensor) -> LocalPart | None:
    """None for a kind of tensor whose elements cannot be read."""
    tensor = tensor.detach()
    if hasattr(tensor, "device_mesh") and hasattr(tensor, "placements"):
        return _of_distributed(tensor)
    if hasattr(tensor, "trigger_wait"):  # the result of a collective that may still run
        tensor = tensor.trigger_wait()
    if tensor.is_sparse:
        tensor = tensor.to_dense()
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
        return None
    if tensor.is_meta or torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return None
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return LocalPart(tensor, tuple(tensor.shape))


def _of_distributed(tensor: Any) -> LocalPart | None:
    """The part of a DTensor: a shard, one of several summands, or a copy."""
    mesh, coordinate = tensor.device_mesh, tensor.device_mesh.get_coordinate()
    local = local_part(tensor._local_tensor)
    if coordinate is None or local is None:
        return None
    values, shape = local.values, tuple(tensor.shape)
    along = [torch.arange(size, device="cpu") for size in shape]
    copy = [f"mesh{int(mesh.mesh.min())}"]
    is_shard = False
    for dimension, placement in enumerate(tensor.placements):
        size, at = mesh.size(dimension), coordinate[dimension]
        if placement.is_partial():
            if placement.reduce_op not in ("sum", "avg"):
                return None
            values = values / size if placement.reduce_op == "avg" else values
        elif placement.is_replicate():
            copy.append(f"{dimension}:{at}")
        else:
            along[placement.dim] = _kept_indices(placement, along[placement.dim], size)[at]
            is_shard = True
    index = _flat_index(along, shape) if is_shard else None
    return LocalPart(values, shape, index, " ".join(copy))


def _kept_indices(placement: Any, indices: Tensor, size: int) -> Sequence[Tensor]:
    """Which indices of one dimension each of `size` processes has; torch itself says how it splits."""
    along_first = (
        type(placement)(0, split_factor=placement.split_factor)
        if hasattr(placement, "split_factor")
        else (type(placement)(0))
    )
    parts: Sequence[Tensor] = along_first._split_tensor(indices, size, with_padding=False)[0]
    return parts


def _flat_index(along: Sequence[Tensor], shape: Sequence[int]) -> Tensor:
    index = torch.zeros((), dtype=torch.int64, device="cpu")
    for indices, size in zip(along, shape, strict=True):
        index = index.unsqueeze(-1) * size + indices
    return index.reshape(-1)


class NumbersState:
    """Where the recording of a process stands: in which step, with which tensors, what failed, and whether it is over.

    Shared by all that record something.
    """

    def __init__(self, context: ProcessContext, check: NumberCheck) -> None:
        self._context = context
        self.check = check
        self.recording = NumbersRecording()
        self.step = 0
        self.by_optimizer = False  # an optimizer steps; otherwise calls of modules are the steps
        self.lowered = False  # fp32 was not computed as fp32
        self.failure = ""
        self.is_over = False

    def goes_on(self) -> bool:
        return not self.is_over and self._context.is_here()

    def has(self, kind: str, name: str, step: int | None = None) -> bool:
        """In this step, if no other is given."""
        return (self.step if step is None else step, kind, name) in self.recording.tensors

    def add(self, kind: str, name: str, tensor: Tensor, *, factor: float = 1.0, summed: bool = False) -> None:
        """In this step."""
        self.recording.add(self.step, kind, name, tensor, factor=factor, summed=summed)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """A failure meanwhile is told by whoever reads the file. The script goes on, and its modes see none of it."""
        from torch.utils._python_dispatch import _disable_current_modes

        try:
            with torch.no_grad(), torch._C.DisableTorchFunction(), _disable_current_modes():
                yield
        except BaseException as error:  # noqa: BLE001
            self.failure = self.failure or f"{type(error).__name__}: {error}"[:_MOST_LETTERS]
            pass_on(error)
