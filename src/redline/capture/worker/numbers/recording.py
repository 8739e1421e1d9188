"""The tensors of a run as sketches, by step, kind and name; and the file that they are written to."""

from __future__ import annotations

import json
import os
import sys
from array import array
from dataclasses import dataclass, field

import torch

from redline.capture.number_check import FILE_ENDING, FILE_KIND, FILE_SCHEMA, SKETCH_SIZE
from redline.capture.worker.numbers.local_part import local_part
from redline.capture.worker.numbers.sketch import PartialSketch, add_to_sketch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor


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
    """What is known so far."""

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
