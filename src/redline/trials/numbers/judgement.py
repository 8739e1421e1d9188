"""The judgement on a run: the score of every tensor, and the first one that is beyond its floor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isclose, isfinite, log2, nan, sqrt
from statistics import fmean, median

from redline.capture.number_check import ACTIVATION, GRADIENT, KINDS, LOSS, MOVEMENT, START, UNCLIPPED
from redline.numerics import Numerics
from redline.trials.numbers.differences import (
    NumberFloors,
    RunDifferences,
    SkippedTensor,
    TensorDifference,
    compare_runs,
)
from redline.trials.numbers.run_numbers import RunNumbers, TensorKey

LIMIT = 4.0  # times the floor
_SAME_DIRECTION = 0.9999
_SAME_NORM = 1e-5
_LEAST_LOSS_SCALE = 16  # such scales are powers of two


@dataclass(frozen=True, kw_only=True)
class TensorDeviation:
    """A tensor that is further from the reference than rounding explains."""

    key: TensorKey
    score: float
    difference: TensorDifference
    deviating: int  # tensors of its kind in its step that do
    compared: int

    @property
    def same_direction(self) -> bool:
        return self.difference.cosine > _SAME_DIRECTION


@dataclass(frozen=True, kw_only=True)
class KindScore:
    """The largest score of one kind of tensors."""

    kind: str
    score: float
    compared: int
    deviating: int


@dataclass(frozen=True, kw_only=True)
class CurveDifference:
    """What people look at without Redline: the largest relative difference of a curve over the steps; nan for none."""

    loss: float
    gradient_norm: float


@dataclass(frozen=True, kw_only=True)
class NumbersJudgement:
    """A run against its reference and the floor of a class."""

    holds: bool  # no score is beyond the limit, and something was compared
    same_bits: bool
    score: float  # the largest
    worst: TensorKey | None
    first: TensorDeviation | None  # in the order in which they were computed
    deviating: int
    compared: int
    kinds: tuple[KindScore, ...]
    skipped: tuple[SkippedTensor, ...]
    only_reference: tuple[TensorKey, ...]
    only_candidate: tuple[TensorKey, ...]
    names_match: bool
    curves: CurveDifference


def judge(reference: RunNumbers, candidate: RunNumbers, floors: NumberFloors) -> NumbersJudgement:
    """Every tensor of the candidate against that of the reference."""
    is_low = floors.numerics is Numerics.LOWER_PRECISION
    differences = compare_runs(reference, candidate, while_same_input=is_low)
    scores = {key: _score(difference, floors.norms[key]) for key, difference in differences.tensors.items()}
    beyond = [key for key, score in scores.items() if score > LIMIT]
    skipped = differences.skipped
    explained = _explained(beyond, scores, differences, reference, candidate)
    if explained:
        skipped = (*skipped, *explained)
        for left_out in explained:
            beyond.remove(left_out.key)
            del scores[left_out.key]
    worst = max(scores, key=lambda key: scores[key], default=None)
    return NumbersJudgement(
        holds=not beyond and bool(scores) and differences.names_match,
        same_bits=differences.same_bits,
        score=scores[worst] if worst is not None else nan,
        worst=worst,
        first=_first(beyond, scores, differences, floors),
        deviating=len(beyond),
        compared=len(scores),
        kinds=tuple(_kind_score(kind, scores) for kind in KINDS if any(key.kind == kind for key in scores)),
        skipped=skipped,
        only_reference=differences.only_reference,
        only_candidate=differences.only_candidate,
        names_match=differences.names_match,
        curves=curves(reference, candidate),
    )


def _explained(
    beyond: list[TensorKey],
    scores: Mapping[TensorKey, float],
    differences: RunDifferences,
    reference: RunNumbers,
    candidate: RunNumbers,
) -> tuple[SkippedTensor, ...]:
    """Those that deviate for a reason that changes nothing else."""
    if _are_reordered(beyond, scores, reference, candidate):
        return tuple(SkippedTensor(key=key, why="the same rows in another order") for key in beyond)
    scale = _loss_scale(beyond, differences)
    if scale is None:
        return ()
    why = f"it is multiplied by {scale:.6g}, and gradients are not"
    return tuple(SkippedTensor(key=key, why=why) for key in beyond if key.kind == LOSS)


def _loss_scale(beyond: list[TensorKey], differences: RunDifferences) -> float | None:
    """By how much the script multiplies its loss before the backward pass, and divides gradients afterwards."""
    gains = [differences.tensors[key].gain for key in beyond if key.kind == LOSS]
    gradients = [difference.gain for key, difference in differences.tensors.items() if key.kind == GRADIENT]
    if not gains or not gradients or not isclose(min(gains), max(gains), rel_tol=_SAME_NORM * LIMIT):
        return None
    scale = median(gains)
    is_power_of_two = scale > 0 and isclose(scale, 2.0 ** round(log2(scale)), rel_tol=_SAME_NORM * LIMIT)
    is_undone = not isclose(median(gradients), scale, rel_tol=0.1)
    return scale if is_power_of_two and scale >= _LEAST_LOSS_SCALE and is_undone else None


def _are_reordered(
    beyond: list[TensorKey], scores: Mapping[TensorKey, float], reference: RunNumbers, candidate: RunNumbers
) -> bool:
    """Whether a batch has its rows in another order: outputs are as large as they were, and every gradient is right."""
    if not beyond or any(key.kind != ACTIVATION for key in beyond) or all(key.kind != GRADIENT for key in scores):
        return False
    norms = (
        (sqrt(reference.tensors[key][0].square_sum), sqrt(candidate.tensors[key][0].square_sum))
        for key in beyond
        if key in candidate.tensors
    )
    return all(isclose(before, after, rel_tol=_SAME_NORM) for before, after in norms)


def _score(difference: TensorDifference, floor: float) -> float:
    if not difference.error:
        return 0.0
    return difference.error / floor if floor else inf


def _kind_score(kind: str, scores: Mapping[TensorKey, float]) -> KindScore:
    of_kind = [score for key, score in scores.items() if key.kind == kind]
    return KindScore(
        kind=kind, score=max(of_kind), compared=len(of_kind), deviating=sum(score > LIMIT for score in of_kind)
    )


def _first(
    beyond: list[TensorKey], scores: Mapping[TensorKey, float], differences: RunDifferences, floors: NumberFloors
) -> TensorDeviation | None:
    if not beyond:
        return None
    starts = [key for key in beyond if key.kind == START]
    step = min(key.step for key in beyond)
    first = (starts or [key for key in beyond if key.step == step])[0]
    same = [key for key in beyond if (key.step, key.kind) == (first.step, first.kind)]
    if first.kind == MOVEMENT:
        first = _first_moved(same, scores, differences)
    elif first.kind in (GRADIENT, UNCLIPPED):
        first = _first_gradient(same, differences, floors)
    return TensorDeviation(
        key=first,
        score=scores[first],
        difference=differences.tensors[first],
        deviating=len(same),
        compared=sum((key.step, key.kind) == (first.step, first.kind) for key in scores),
    )


def _first_moved(beyond: list[TensorKey], scores: Mapping[TensorKey, float], differences: RunDifferences) -> TensorKey:
    """Buffers change in the order of the forward pass; an optimizer steps all at once: then the one furthest off."""
    buffers = [key for key in beyond if key._replace(kind=GRADIENT) not in differences.tensors]
    return buffers[0] if buffers else max(beyond, key=lambda key: scores[key])


def _first_gradient(beyond: list[TensorKey], differences: RunDifferences, floors: NumberFloors) -> TensorKey:
    """One wrong gradient changes the factor by which a script clips all: the first that is off by more than that."""
    gains = [gain for key in beyond if isfinite(gain := differences.tensors[key].gain)]
    common = median(gains) if gains else 1.0
    own = (key for key in beyond if differences.tensors[key].error_beside(common) > LIMIT * floors.norms[key])
    return next(own, beyond[0])


def curves(reference: RunNumbers, candidate: RunNumbers) -> CurveDifference:
    return CurveDifference(
        loss=_curve_difference(reference, candidate, LOSS),
        gradient_norm=_curve_difference(reference, candidate, GRADIENT),
    )


def _curve_difference(reference: RunNumbers, candidate: RunNumbers, kind: str) -> float:
    before, after = _curve(reference, kind), _curve(candidate, kind)
    shared = before.keys() & after.keys()
    if not shared:
        return nan
    shares = [abs(after[step] - before[step]) / before[step] if before[step] else 0.0 for step in shared]
    return max(share if isfinite(share) else inf for share in shares)


def _curve(run: RunNumbers, kind: str) -> dict[int, float]:
    """By step: the size of the loss, or the norm of all gradients; the mean over copies of a tensor."""
    squares: dict[int, float] = {}
    for key, copies in run.tensors.items():
        if key.kind == kind:
            sizes = [float(copy.sketch[0]) if kind == LOSS else sqrt(copy.square_sum) for copy in copies]
            is_finite = not any(copy.non_finite for copy in copies)
            squares[key.step] = squares.get(key.step, 0.0) + (fmean(sizes) ** 2 if is_finite else inf)
    return {step: sqrt(square) for step, square in squares.items()}
