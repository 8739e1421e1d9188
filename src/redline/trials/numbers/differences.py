"""How far the tensors of a run are from those of its reference: error, gain and direction of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf, isfinite, nan, sqrt

import numpy as np

from redline.capture.number_check import ACTIVATION, DROPOUT, GRADIENT, INPUT, LOSS, MOVEMENT, START, UNCLIPPED
from redline.trials.numbers.run_numbers import RunNumbers, TensorKey, TensorSketch

OTHER_INPUT = "its input is another: another token was chosen before"
_OF_PARAMETERS = (START, GRADIENT, MOVEMENT)


@dataclass(frozen=True, kw_only=True)
class TensorDifference:
    """One tensor of a candidate against that of the reference."""

    error: float  # norm of the difference; infinite where it cannot be
    norm: float  # of the reference's
    gain: float = nan  # how much of the reference's the candidate's holds: 2 where it is twice as large
    cosine: float = nan  # 1 where the direction is the same
    same_bits: bool = False
    reason: str = ""  # why there is no error to tell: it is missing, or not finite

    @property
    def relative_error(self) -> float:
        if self.norm:
            return self.error / self.norm
        return inf if self.error else 0.0

    def error_beside(self, gain: float) -> float:
        """What is left of the error where the candidate's is expected to be so many times as large."""
        if not isfinite(self.error) or not self.cosine or not isfinite(self.cosine):
            return self.error
        size = self.gain / self.cosine  # of the candidate's, in those of the reference's
        return self.norm * sqrt(max(0.0, size * size - 2 * gain * self.gain + gain * gain))


@dataclass(frozen=True, kw_only=True)
class SkippedTensor:
    """A tensor of both runs that was not compared."""

    key: TensorKey
    why: str


@dataclass(frozen=True, kw_only=True)
class RunDifferences:
    """All tensors of a candidate against its reference."""

    tensors: Mapping[TensorKey, TensorDifference]  # in the order of the reference
    skipped: tuple[SkippedTensor, ...]
    only_reference: tuple[TensorKey, ...]
    only_candidate: tuple[TensorKey, ...]
    names_match: bool  # most parameters of the reference are known in the candidate

    @property
    def same_bits(self) -> bool:
        """Of everything but outputs of modules that cannot be seen in one of the runs, as in compiled code."""
        unseen = (*(skipped.key for skipped in self.skipped), *self.only_reference, *self.only_candidate)
        is_whole = bool(self.tensors) and all(key.kind in (ACTIVATION, DROPOUT, UNCLIPPED) for key in unseen)
        return is_whole and all(difference.same_bits for difference in self.tensors.values())


def compare_runs(reference: RunNumbers, candidate: RunNumbers, *, while_same_input: bool = False) -> RunDifferences:
    """Tensor by tensor; those that are in one run only are named.

    Where precision is lower, a model that generates may choose another token at some time: what it computes from then
    on, `while_same_input` leaves out.
    """
    last_step = _last_same_input(reference, candidate) if while_same_input else inf
    splits_batch = _splits_batch(reference, candidate)
    names_match = _names_match(reference, candidate)
    tensors: dict[TensorKey, TensorDifference] = {}
    skipped: list[SkippedTensor] = []
    only_reference: list[TensorKey] = []
    seen_inside = _seen_inside(candidate)
    for key, copies in reference.tensors.items():
        others = candidate.tensors.get(key)
        if key.kind == INPUT:
            continue
        if key.step > last_step:
            skipped.append(SkippedTensor(key=key, why=OTHER_INPUT))
        elif others is None and names_match and _must_be_there(key, copies[0], reference):
            tensors[key] = TensorDifference(error=inf, norm=_norm(copies[0]), reason="missing")
        elif others is None and names_match and _is_left_out(key, copies[0], reference, seen_inside):
            tensors[key] = TensorDifference(error=inf, norm=_norm(copies[0]), reason="left out")
        elif others is None:
            only_reference.append(key)
        elif splits_batch and (key.kind == ACTIVATION or _is_of_buffer(key, reference)):
            skipped.append(SkippedTensor(key=key, why="each rank has its own part of the batch"))
        elif {copy.shape for copy in others} != {copy.shape for copy in copies}:
            shapes = f"{list(copies[0].shape)} and {list(others[0].shape)}"
            skipped.append(SkippedTensor(key=key, why=f"its shapes differ: {shapes}"))
        else:
            tensors[key] = _worst(_pairs(key.kind, copies, others))
    return RunDifferences(
        tensors=tensors,
        skipped=tuple(skipped),
        only_reference=tuple(only_reference),
        only_candidate=tuple(key for key in candidate.tensors if key not in reference.tensors and key.kind != INPUT),
        names_match=names_match,
    )


def _last_same_input(reference: RunNumbers, candidate: RunNumbers) -> float:
    """The last step before the one in which the two are given other numbers to work on."""
    others = (
        key.step
        for key, copies in reference.tensors.items()
        if key.kind == INPUT and key in candidate.tensors and candidate.tensors[key][0].hash != copies[0].hash
    )
    return min(others, default=inf) - 1


def _is_of_buffer(key: TensorKey, reference: RunNumbers) -> bool:
    """Such as a running mean over the batch."""
    return key.kind == MOVEMENT and key._replace(kind=GRADIENT) not in reference.tensors


def _must_be_there(key: TensorKey, tensor: TensorSketch, reference: RunNumbers) -> bool:
    """Whether it is of a parameter that is trained. A gradient of zeros may as well be none at all."""
    is_trained = key._replace(kind=GRADIENT) in reference.tensors
    return key.kind in _OF_PARAMETERS and is_trained and not (key.kind == GRADIENT and not _norm(tensor))


def _seen_inside(run: RunNumbers) -> frozenset[str]:
    """Modules that were seen to call others: what is compiled is seen from outside only."""
    names = (key.name for key in run.tensors if key.kind == ACTIVATION and key.name)
    return frozenset(
        ".".join(parts[:depth]) for name in names for parts in [name.split(".")] for depth in range(len(parts))
    )


def _is_left_out(key: TensorKey, tensor: TensorSketch, reference: RunNumbers, seen_inside: frozenset[str]) -> bool:
    """A dropout that is nowhere in the candidate, though it would have been seen where it should be."""
    if key.kind != DROPOUT or not _norm(tensor):
        return False
    calls_others = any(
        other.kind == ACTIVATION and other.name.startswith(f"{key.name}.") for other in reference.tensors
    )
    return (key.name if calls_others else key.name.rpartition(".")[0]) in seen_inside


def _names_match(reference: RunNumbers, candidate: RunNumbers) -> bool:
    names = {key.name for key in reference.tensors if key.kind in _OF_PARAMETERS}
    others = {key.name for key in candidate.tensors if key.kind in _OF_PARAMETERS}
    return 2 * len(names & others) >= len(names)


def _splits_batch(reference: RunNumbers, candidate: RunNumbers) -> bool:
    """Whether the ranks of one run share the batch of the other: then outputs have fewer rows there."""
    if reference.world == candidate.world:
        return False
    for key, copies in reference.tensors.items():
        if key.kind == ACTIVATION and key in candidate.tensors:
            shape, other = copies[0].shape, candidate.tensors[key][0].shape
            if shape and len(shape) == len(other) and shape[0] != other[0]:
                return True
    return False


def _pairs(
    kind: str, copies: tuple[TensorSketch, ...], others: tuple[TensorSketch, ...]
) -> Iterator[tuple[TensorSketch, TensorSketch]]:
    """Which copies are held against each other: those of the same rank, where both runs have the same ranks."""
    by_name = {copy.copy: copy for copy in copies}
    if all(other.copy in by_name for other in others) and len(others) == len(copies):
        yield from ((by_name[other.copy], other) for other in others)
    elif kind == LOSS:
        yield _mean(copies), _mean(others)
    else:
        yield from ((copies[0], other) for other in others)


def _mean(copies: tuple[TensorSketch, ...]) -> TensorSketch:
    sketch = np.mean([copy.sketch for copy in copies], axis=0)
    lost = sum(copy.non_finite for copy in copies)
    return replace(copies[0], sketch=sketch, square_sum=float(sketch @ sketch), non_finite=lost, hash="")


def _worst(pairs: Iterator[tuple[TensorSketch, TensorSketch]]) -> TensorDifference:
    found = [tensor_difference(reference, candidate) for reference, candidate in pairs]
    worst = max(found, key=lambda difference: difference.relative_error)
    return replace(worst, same_bits=all(difference.same_bits for difference in found))


def tensor_difference(reference: TensorSketch, candidate: TensorSketch) -> TensorDifference:
    a, b = reference.sketch, candidate.sketch
    norm = _norm(reference)
    if candidate.non_finite != reference.non_finite:
        return TensorDifference(error=inf, norm=norm, reason="not finite")
    same_bits = bool(reference.hash) and (reference.hash, reference.dtype) == (candidate.hash, candidate.dtype)
    aa, bb, ab = float(a @ a), float(b @ b), float(a @ b)
    return TensorDifference(
        error=0.0 if same_bits else sqrt(float((b - a) @ (b - a))),
        norm=norm,
        gain=ab / aa if aa else nan,
        cosine=ab / sqrt(aa * bb) if aa and bb else nan,
        same_bits=same_bits,
    )


def _norm(tensor: TensorSketch) -> float:
    return sqrt(float(tensor.sketch @ tensor.sketch))
