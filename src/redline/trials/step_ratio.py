"""How far the average step changed from one recording to another, with an interval from their own steps."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LEAST_STEPS = 3  # of each recording: fewer say nothing of how steps spread
DRAWS = 4000
CONFIDENCE = 0.95
_SEED = 20  # the same recordings get the same interval


@dataclass(frozen=True)
class RatioInterval:
    """Of the change of the step, as a share of the one before."""

    low: float
    high: float


def ratio_of_steps(before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> RatioInterval | None:
    """By drawing whole steps again and again: ranks of one step wait for each other, and are drawn together.

    None where a recording has too few steps. It does not know how much two processes of one program differ.
    """
    steps = [_steps(lengths) for lengths in (before, after)]
    if min(map(len, steps)) < LEAST_STEPS or not all(lengths.all() for lengths in steps):
        return None
    drawn = np.random.default_rng(_SEED)
    means = [lengths[drawn.integers(0, len(lengths), (DRAWS, len(lengths)))].mean(axis=1) for lengths in steps]
    changes = means[1] / means[0] - 1
    low, high = np.quantile(changes, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]).tolist()
    return RatioInterval(low, high)


def _steps(lengths: Sequence[Sequence[int]]) -> npt.NDArray[np.float64]:
    """The average over ranks of each step that all of them have."""
    common = min(map(len, lengths), default=0)
    return np.array([steps[:common] for steps in lengths], np.float64).mean(axis=0) if common else np.empty(0)
