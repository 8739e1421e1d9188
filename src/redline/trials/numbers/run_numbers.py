"""The numbers of one run, read from the files of its ranks: shards are put together, copies are kept apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from redline.artifacts.file_kind import ANY_NUMBER, FileKind
from redline.capture.number_check import FILE_ENDING, FILE_KIND, FILE_SCHEMA
from redline.errors import InputError
from redline.ledger.rank.digest_limits import Count

LOW_PRECISION = frozenset({"bfloat16", "float16"})  # and all that have eight bits or fewer


class TensorKey(NamedTuple):
    """Which tensor of a run."""

    step: int
    kind: str
    name: str


@dataclass(frozen=True, kw_only=True, eq=False)
class TensorSketch:
    """One copy of a tensor, of one rank or put together from the shards of several."""

    copy: str  # "rank 0", or what the ranks say that share it
    sketch: NDArray[np.float64]
    square_sum: float
    shape: tuple[int, ...]
    dtype: str
    non_finite: int
    hash: str

    @property
    def elements(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def is_low_precision(self) -> bool:
        return self.dtype in LOW_PRECISION or self.dtype.startswith("float8")


@dataclass(frozen=True, kw_only=True, eq=False)
class RunNumbers:
    """All that was recorded of a run."""

    world: int
    steps: int
    by_optimizer: bool  # steps are those of an optimizer; otherwise calls of the outermost module
    lowered: bool  # autocast was on, or matrix products were computed in less than fp32
    tensors: Mapping[TensorKey, tuple[TensorSketch, ...]]  # in the order in which they were computed
    notes: tuple[str, ...] = ()

    @property
    def is_low_precision(self) -> bool:
        return self.lowered or self.first_low_precision() is not None

    def first_low_precision(self) -> TensorKey | None:
        """The first tensor that is of lower precision."""
        low = (key for key, copies in self.tensors.items() if any(copy.is_low_precision for copy in copies))
        return next(low, None)

    def first_steps(self, steps: int) -> RunNumbers:
        """As if it had ended then."""
        kept = {key: copies for key, copies in self.tensors.items() if key.step < steps}
        return replace(self, steps=steps, tensors=kept)


def read_run(folder: Path) -> RunNumbers:
    """Of the files that the ranks of a run left in a folder; InputError where they cannot be used."""
    paths = sorted(folder.glob(f"rank-*{FILE_ENDING}"))
    if not paths:
        raise InputError(f"{folder} holds no recorded numbers; give the folder that they were recorded to")
    return combined([read_rank(path) for path in paths], where=str(folder))


@dataclass(frozen=True, kw_only=True)
class _Tensor:
    """One entry of the line before the sketches."""

    step: int
    kind: str
    name: str
    shape: tuple[Count, ...]
    dtype: str
    copy: str
    square_sum: float
    non_finite: Count
    hash: str
    numbers: Count


@dataclass(frozen=True, kw_only=True)
class _Head:
    """The line before the sketches."""

    world: Count
    rank: int
    steps: Count
    by_optimizer: bool
    lowered: bool
    failure: str
    notes: tuple[str, ...]
    tensors: tuple[_Tensor, ...]


_NUMBERS = FileKind(
    "recorded numbers",
    _Head,
    "record them again",
    most_bytes=4 << 30,
    envelope=(FILE_KIND, FILE_SCHEMA),
    numbers=ANY_NUMBER,  # a sum may be infinite
)


@dataclass(frozen=True, kw_only=True, eq=False)
class RankNumbers:
    """The file of one rank."""

    head: _Head
    sketches: Sequence[NDArray[np.float64]]


def read_rank(path: Path) -> RankNumbers:
    text, _, data = _NUMBERS.whole(path).partition(b"\n")
    head = _NUMBERS.shaped(_NUMBERS.content_of(text, str(path)), str(path))
    counts = [tensor.numbers for tensor in head.tensors]
    if len(data) != 8 * sum(counts):
        raise InputError(f"{path} is cut short; record the numbers again")
    sketches = np.split(np.frombuffer(data, dtype="<f8"), np.cumsum(counts)[:-1]) if counts else []
    return RankNumbers(head=head, sketches=sketches)


def combined(ranks: Sequence[RankNumbers], *, where: str) -> RunNumbers:
    """The run of these ranks."""
    heads = [rank.head for rank in ranks]
    world = max(head.world for head in heads)
    if len(ranks) < world:
        raise InputError(f"{where} holds the numbers of {len(ranks)} of {world} ranks; record them again")
    for head in heads:
        if head.failure:
            raise InputError(f"{where}: rank {head.rank} could not be recorded: {head.failure}")
    parts: dict[TensorKey, dict[str, list[TensorSketch]]] = defaultdict(lambda: defaultdict(list))
    for rank in ranks:
        for tensor, sketch in zip(rank.head.tensors, rank.sketches, strict=True):
            copy = tensor.copy or f"rank {rank.head.rank}"
            known = {name: getattr(tensor, name) for name in ("square_sum", "shape", "dtype", "non_finite", "hash")}
            key = TensorKey(tensor.step, tensor.kind, tensor.name)
            parts[key][copy].append(TensorSketch(copy=copy, sketch=sketch, **known))
    return RunNumbers(
        world=world,
        steps=min(head.steps for head in heads),
        by_optimizer=all(head.by_optimizer for head in heads),
        lowered=any(head.lowered for head in heads),
        tensors={key: tuple(map(_whole, copies.values())) for key, copies in parts.items()},
        notes=tuple(dict.fromkeys(note for head in heads for note in head.notes)),
    )


def _whole(parts: Sequence[TensorSketch]) -> TensorSketch:
    """Sketches of the parts of a tensor, and of its summands, add up to that of the whole."""
    if len(parts) == 1:
        return parts[0]
    sketch = _sum(part.sketch for part in parts)
    return TensorSketch(
        copy=parts[0].copy,
        sketch=sketch,
        square_sum=sum(part.square_sum for part in parts),
        shape=parts[0].shape,
        dtype=parts[0].dtype,
        non_finite=sum(part.non_finite for part in parts),
        hash="+".join(part.hash for part in parts),
    )


def _sum(sketches: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
    total: NDArray[np.float64] = np.sum(list(sketches), axis=0)
    return total
