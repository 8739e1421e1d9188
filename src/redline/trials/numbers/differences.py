"""How far the tensors of a run are from those of its reference: error, gain and direction of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, nan, sqrt
from statistics import median

import numpy as np

from redline.capture.number_check import ACTIVATION, DROPOUT, GRADIENT, INPUT, LOSS, MOVEMENT, START, UNCLIPPED
from redline.numerics import Numerics
from redline.trials.numbers.run_numbers import RunNumbers, TensorKey, TensorSketch

OTHER_INPUT = "its input is another: another token was chosen before"
_OF_PARAMETERS = (START, GRADIENT, MOVEMENT)
# By how much of itself every result of a leaf module is off. Sums in another order are off by some units, not by one.
PERTURBATION = {Numerics.REASSOCIATION: 2.0**-21, Numerics.LOWER_PRECISION: 2.0**-8}
SUM_PERTURBATION = 2.0**-21  # of both: losses and long sums stay in fp32
PERTURBED_RUNS = 3
_UNITS = 2  # of rounding, below which nothing is told from chance
_ROUNDING = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-9}
_NEGLIGIBLE = 2.0**-22  # of the size that numbers of this kind have
# What should be 0, as the gradient of a bias before a normalisation, is a rest of rounding. It is known by growing a
# perturbation by so much; errors that all elements share make it larger than a perturbation of chance can.
_AMPLIFIED = 2.0**12
_REST = 2.0**7  # times the perturbation, of the size that numbers of its kind have


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
        elif splits_batch and (
            key.kind == ACTIVATION or (key.kind == MOVEMENT and key._replace(kind=GRADIENT) not in reference.tensors)
        ):
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


@dataclass(frozen=True, kw_only=True)
class NumberFloors:
    """The floor of each tensor: how far a right run may be from the reference, by runs that round a little worse.

    By tensor, as norms of differences.
    """

    numerics: Numerics
    norms: Mapping[TensorKey, float]


def floors_of(reference: RunNumbers, perturbed: Sequence[RunNumbers], numerics: Numerics) -> NumberFloors:
    """The largest difference of the perturbed runs, at least the median of its kind in this step.

    Chance may round a number of a perturbed run to the same bits, so single ones say little; a loss is a single number,
    and its floor is never below that of a step before.
    """
    is_low = numerics is Numerics.LOWER_PRECISION
    largest = _largest_errors(reference, perturbed, while_same_input=is_low)
    shares = {key: error / norm for key, error in largest.items() if (norm := _largest_norm(reference, key))}
    typical = _typical_shares(shares)
    sizes = _typical_sizes(reference)
    eps = PERTURBATION[numerics]
    norms = {}
    for key, copies in reference.tensors.items():
        kind, norm = (key.step, key.kind), _largest_norm(reference, key)
        rounding = _UNITS * _ROUNDING.get(copies[0].dtype, 2.0**-4)
        if key.kind == LOSS:
            share = _loss_share(shares, key.step)
        else:
            share = max(typical.get(kind, typical.get((-1, key.kind), 0.0)), 2 * eps)
        size = sizes[kind] * sqrt(copies[0].elements)
        is_rest = largest.get(key, 0.0) > _AMPLIFIED * eps * norm
        rest = (_REST * eps if is_rest else _NEGLIGIBLE) * size
        norms[key] = max(largest.get(key, 0.0), max(share, rounding) * norm, rest)
    return NumberFloors(numerics=numerics, norms=norms)


def _largest_errors(
    reference: RunNumbers, perturbed: Sequence[RunNumbers], *, while_same_input: bool
) -> dict[TensorKey, float]:
    largest: dict[TensorKey, float] = {}
    for run in perturbed:
        for key, difference in compare_runs(reference, run, while_same_input=while_same_input).tensors.items():
            if isfinite(difference.error):
                largest[key] = max(largest.get(key, 0.0), difference.error)
    return largest


def _loss_share(shares: Mapping[TensorKey, float], step: int) -> float:
    known = (share for key, share in shares.items() if key.kind == LOSS and key.step <= step)
    return max(SUM_PERTURBATION, *known)


def _typical_shares(shares: Mapping[TensorKey, float]) -> dict[tuple[int, str], float]:
    """The median of a kind in a step; as step -1 the largest of these, for steps to which no perturbed run came."""
    by_kind: dict[tuple[int, str], list[float]] = defaultdict(list)
    for key, share in shares.items():
        by_kind[key.step, key.kind].append(share)
    typical = {kind: median(of_kind) for kind, of_kind in by_kind.items()}
    for (_, kind), share in list(typical.items()):
        typical[-1, kind] = max(typical.get((-1, kind), 0.0), share)
    return typical


def _largest_norm(reference: RunNumbers, key: TensorKey) -> float:
    return sqrt(max(float(copy.sketch @ copy.sketch) for copy in reference.tensors[key]))


def _typical_sizes(reference: RunNumbers) -> dict[tuple[int, str], float]:
    """Of one number: the median over the tensors of a kind in a step."""
    sizes: dict[tuple[int, str], list[float]] = defaultdict(list)
    for key, copies in reference.tensors.items():
        sizes[key.step, key.kind].append(sqrt(copies[0].square_sum / max(1, copies[0].elements)))
    return {kind: median([size for size in of_kind if size] or [0.0]) for kind, of_kind in sizes.items()}
