"""The floor of each tensor: how far a right run may be from the reference, by runs that round a little worse."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from statistics import median

from redline.capture.number_check import LOSS
from redline.numerics import Numerics
from redline.trials.numbers.differences import compare_runs
from redline.trials.numbers.run_numbers import RunNumbers, TensorKey

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
class NumberFloors:
    """By tensor, as norms of differences."""

    numerics: Numerics
    norms: Mapping[TensorKey, float]


def floors_of(reference: RunNumbers, perturbed: Sequence[RunNumbers], numerics: Numerics) -> NumberFloors:
    """The largest difference of the perturbed runs, at least the median of its kind in this step.

    Chance may round a number of a perturbed run to the same bits, so single ones say little; a loss is a single number,
    and its floor is never below that of a step before.
    """
    is_low = numerics is Numerics.LOWER_PRECISION
    largest = _largest_errors(reference, perturbed, while_same_input=is_low)
    shares = {key: error / norm for key, error in largest.items() if (norm := _norm(reference, key))}
    typical = _typical_shares(shares)
    sizes = _typical_sizes(reference)
    eps = PERTURBATION[numerics]
    norms = {}
    for key, copies in reference.tensors.items():
        kind, norm = (key.step, key.kind), _norm(reference, key)
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


def _norm(reference: RunNumbers, key: TensorKey) -> float:
    return sqrt(max(float(copy.sketch @ copy.sketch) for copy in reference.tensors[key]))


def _typical_sizes(reference: RunNumbers) -> dict[tuple[int, str], float]:
    """Of one number: the median over the tensors of a kind in a step."""
    sizes: dict[tuple[int, str], list[float]] = defaultdict(list)
    for key, copies in reference.tensors.items():
        sizes[key.step, key.kind].append(sqrt(copies[0].square_sum / max(1, copies[0].elements)))
    return {kind: median([size for size in of_kind if size] or [0.0]) for kind, of_kind in sizes.items()}
