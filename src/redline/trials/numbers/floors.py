"""The floor of each tensor: how far a right run may be from the reference, by runs that round a little worse."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from statistics import median

from redline.launch.number_check import LOSS
from redline.numerics import Numerics
from redline.trials.numbers.differences import compare_runs
from redline.trials.numbers.run_numbers import RunNumbers, TensorKey

# By how much of itself every result of a leaf module is off. Sums in another order are off by some units, not by one.
PERTURBATION = {Numerics.REASSOCIATION: 2.0**-21, Numerics.LOWER_PRECISION: 2.0**-8}
LOSS_PERTURBATION = 2.0**-21  # of both: losses stay in fp32
PERTURBED_RUNS = 3
_UNITS = 2  # of rounding, below which nothing is told from chance
_ROUNDING = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-9}
_NEGLIGIBLE = 2.0**-22  # of the size that numbers of this kind have: a gradient that should be 0 is some such rest


@dataclass(frozen=True, kw_only=True)
class NumberFloors:
    """By tensor, as norms of differences."""

    numerics: Numerics
    norms: Mapping[TensorKey, float]


def floors_of(reference: RunNumbers, perturbed: Sequence[RunNumbers], numerics: Numerics) -> NumberFloors:
    """The largest difference of the perturbed runs, at least the median of its kind in this step.

    Chance may round a number of a perturbed run to the same bits, so single ones say little; a loss is a single number,
    and has the largest floor of all steps.
    """
    relative = _largest_errors(reference, perturbed)
    by_kind: dict[tuple[int, str], list[float]] = defaultdict(list)
    for key, error in relative.items():
        by_kind[key.step, key.kind].append(error)
    typical = {kind: median(errors) for kind, errors in by_kind.items()}
    sizes = _typical_sizes(reference)
    largest_loss = max((error for key, error in relative.items() if key.kind == LOSS), default=0.0)
    norms = {}
    for key, copies in reference.tensors.items():
        kind = key.step, key.kind
        rounding = _UNITS * _ROUNDING.get(copies[0].dtype, 2.0**-4)
        eps = 0.0 if key.kind == LOSS else 2 * PERTURBATION[numerics]
        chance = largest_loss if key.kind == LOSS else max(relative.get(key, 0.0), typical.get(kind, 0.0))
        norm = sqrt(max(float(copy.sketch @ copy.sketch) for copy in copies))
        rest = _NEGLIGIBLE * sizes[kind] * sqrt(copies[0].elements)
        norms[key] = max(max(chance, eps, rounding) * norm, rest)
    return NumberFloors(numerics=numerics, norms=norms)


def _largest_errors(reference: RunNumbers, perturbed: Sequence[RunNumbers]) -> dict[TensorKey, float]:
    largest: dict[TensorKey, float] = {}
    for run in perturbed:
        for key, difference in compare_runs(reference, run).tensors.items():
            error = difference.relative_error
            if isfinite(error):
                largest[key] = max(largest.get(key, 0.0), error)
    return largest


def _typical_sizes(reference: RunNumbers) -> dict[tuple[int, str], float]:
    """Of one number: the median over the tensors of a kind in a step."""
    sizes: dict[tuple[int, str], list[float]] = defaultdict(list)
    for key, copies in reference.tensors.items():
        sizes[key.step, key.kind].append(sqrt(copies[0].square_sum / max(1, copies[0].elements)))
    return {kind: median(values) for kind, values in sizes.items()}
