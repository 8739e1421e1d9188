"""The three constants of matmuls in one type, fitted to their times: max(flops / compute, bytes / memory) + fixed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from redline.calibration.calibration_record import Estimate, KernelPoint, Law

FEWEST = 5
_FOLDS = 5
_REPLICATES = 40
_SEED = 6
_SIGMAS = 1.96  # half of an interval of 95 %, in standard deviations
_LOW, _HIGH = 2.5, 97.5  # percentiles
_MOST_SPREAD = 1.0

_SIDE = 9  # candidates along each constant
_ROUNDS = 12
_NEXT = 0.45  # how much of the box the next round looks at


def fit_law(points: Sequence[KernelPoint]) -> Law | None:
    """The law that is least wrong on average, in logarithms; None for fewer than five shapes."""
    if len(points) < FEWEST:
        return None
    timings = _Timings.of(points)
    constants = _fit(timings)
    error_median, error_p90 = _errors(timings)
    low, high = _interval(timings, constants)
    compute, memory, fixed = (
        Estimate(value=float(value), low=float(least), high=float(most), samples=len(points))
        for value, least, most in zip(np.exp(constants), np.exp(low), np.exp(high), strict=True)
    )
    return Law(
        dtype=points[0].dtype,
        compute_flops_per_s=_per_s(compute),
        memory_bytes_per_s=_per_s(memory),
        fixed_ns=fixed,
        error_median=error_median,
        error_p90=error_p90,
        points=len(points),
    )


@dataclass(frozen=True)
class _Timings:
    """Work and nanoseconds of each shape."""

    flops: np.ndarray
    bytes: np.ndarray
    time_ns: np.ndarray
    spread: np.ndarray
    """Half of the interval of each time, as a share of it."""

    @classmethod
    def of(cls, points: Sequence[KernelPoint]) -> _Timings:
        """From fast to slow, so that every fold has some of all."""
        ordered = sorted(points, key=lambda point: point.time_ns.value)
        rows = [(point.flops, point.bytes, point.time_ns.value, point.time_ns.spread) for point in ordered]
        flops, size_bytes, time_ns, spread = np.array(rows, dtype=float).T
        return cls(flops, size_bytes, time_ns, np.minimum(spread, _MOST_SPREAD))

    def of_rows(self, rows: np.ndarray) -> _Timings:
        return _Timings(self.flops[rows], self.bytes[rows], self.time_ns[rows], self.spread[rows])

    def drawn(self, generator: np.random.Generator) -> _Timings:
        """As many of the shapes by chance, each with a time that it might have had."""
        rows = generator.integers(len(self.time_ns), size=len(self.time_ns))
        times_ns = self.time_ns * np.exp(generator.standard_normal(len(rows)) * self.spread / _SIGMAS)
        return replace(self, time_ns=times_ns).of_rows(rows)


def _predicted_ns(constants: np.ndarray, timings: _Timings) -> np.ndarray:
    """One row per set of constants: the logarithms of FLOPs and bytes per nanosecond, and of nanoseconds."""
    compute, memory, fixed = (np.exp(column)[..., None] for column in constants.T)
    return np.asarray(np.maximum(timings.flops / compute, timings.bytes / memory) + fixed)


def _loss(constants: np.ndarray, timings: _Timings) -> np.ndarray:
    return np.asarray(np.abs(np.log(_predicted_ns(constants, timings) / timings.time_ns)).mean(axis=-1))


def _fit(timings: _Timings) -> np.ndarray:
    """Looks at boxes of candidates, each a part of the one before around its best.

    The loss has several valleys, which a search downhill would not leave. Where the shapes do not tell a constant, many
    are equally good: of rates, the lowest is taken.
    """
    centre, reach = _box(timings)
    best, least = centre, np.inf
    steps = np.linspace(-1.0, 1.0, _SIDE)
    offsets = np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), axis=-1).reshape(-1, 3)
    for _ in range(_ROUNDS):
        candidates = best + offsets * reach
        losses = _loss(candidates, timings)
        smallest = int(np.argmin(losses))
        if losses[smallest] < least:
            best, least = candidates[smallest], losses[smallest]
        reach = reach * _NEXT
    return best


def _box(timings: _Timings) -> tuple[np.ndarray, np.ndarray]:
    """Where the constants can be. No shape beats the rates, and none is faster than the fixed time, but for noise."""
    compute = np.log((timings.flops / timings.time_ns).max())
    memory = np.log((timings.bytes / timings.time_ns).max())
    fixed = np.log(timings.time_ns.min())
    return np.array([compute, memory, fixed - 2.0]), np.array([2.0, 2.0, 3.0])


def _errors(timings: _Timings) -> tuple[float, float]:
    """Median and 90th percentile over shapes that were left out of the fit, each once."""
    numbers = np.arange(len(timings.time_ns))
    errors = np.empty(len(numbers))
    for fold in range(_FOLDS):
        unseen = numbers % _FOLDS == fold
        fitted = _fit(timings.of_rows(numbers[~unseen]))
        held = timings.of_rows(numbers[unseen])
        errors[unseen] = np.abs(_predicted_ns(fitted, held) / held.time_ns - 1)
    return float(np.median(errors)), float(np.percentile(errors, 90))


def _interval(timings: _Timings, constants: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """From fits to other choices of the shapes with other times.

    What slows one shape down slows others down too, so the usual spread of a time is one of the constants as well.
    """
    generator = np.random.default_rng(_SEED)
    fits = np.array([_fit(timings.drawn(generator)) for _ in range(_REPLICATES)])
    below = constants - np.minimum(constants, np.percentile(fits, _LOW, axis=0))
    above = np.maximum(constants, np.percentile(fits, _HIGH, axis=0)) - constants
    usual = np.median(timings.spread)
    return constants - np.hypot(below, usual), constants + np.hypot(above, usual)


def _per_s(per_ns: Estimate) -> Estimate:
    return Estimate(value=per_ns.value * 1e9, low=per_ns.low * 1e9, high=per_ns.high * 1e9, samples=per_ns.samples)
