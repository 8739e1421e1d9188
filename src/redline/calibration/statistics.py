"""From repeated timings to an estimate: where the warm-up ends, the median with its interval, outliers."""

from collections.abc import Sequence
from math import hypot, sqrt

import numpy as np

from redline.calibration.calibration_record import Estimate

_CONFIDENCE_Z = 1.96  # 95 % of a normal distribution
MAD_TO_SIGMA = 1.4826  # of a normal distribution
_FAR_SIGMAS = 5.0
_SEEN_CHANGE = 0.02  # a first part that is less slower than this is no warm-up
_FEWEST = 6  # samples in which a change can be seen


def warm_up_end(samples: Sequence[float]) -> int:
    """How many of the first samples are warm-up: those before the change that explains the series best.

    Of all ways to cut the series in two, the one with the least sum of absolute deviations from both medians; at most
    half of it, and only where the first part is slower than the second.
    """
    series = np.asarray(samples, dtype=float)
    if len(series) < _FEWEST:
        return 0
    whole = _deviation(series)
    cuts = range(1, len(series) // 2 + 1)
    costs = [_deviation(series[:cut]) + _deviation(series[cut:]) for cut in cuts]
    best = int(np.argmin(costs))
    cut = cuts[best]
    is_slower = np.median(series[:cut]) > (1 + _SEEN_CHANGE) * np.median(series[cut:])
    # A cut always explains some of any series; this one has to explain more than a sample's worth of it.
    is_seen = whole - costs[best] > 2 * whole / len(series)
    return cut if is_slower and is_seen else 0


def _deviation(series: np.ndarray) -> float:
    return float(np.abs(series - np.median(series)).sum())


def estimate(passes: Sequence[Sequence[float]], noise: float = 0.0) -> Estimate:
    """The median of all samples but the warm-up of each pass.

    The interval holds the median of the population with 95 % (order statistics), and the medians of all passes, which
    lie apart in time; `noise`, a share of the value, is added to it as an independent cause. Times are above zero, and
    so are both ends.
    """
    kept = [np.asarray(part, dtype=float)[warm_up_end(part) :] for part in passes if len(part)]
    if not kept:
        raise ValueError("an estimate needs a sample")
    samples = np.sort(np.concatenate(kept))
    middle = float(np.median(samples))
    low, high = _median_interval(samples)
    medians = [float(np.median(part)) for part in kept]
    return Estimate(
        value=middle,
        low=middle / (1 + hypot(middle / min(low, *medians) - 1, noise)),
        high=middle * (1 + hypot(max(high, *medians) / middle - 1, noise)),
        samples=len(samples),
        outliers=outliers(samples),
    )


def _median_interval(ordered: np.ndarray) -> tuple[float, float]:
    """The order statistics between which the median lies with 95 %; for few samples, all of them."""
    count = len(ordered)
    reach = _CONFIDENCE_Z * sqrt(count) / 2
    first = max(0, int(np.floor(count / 2 - reach)))
    last = min(count - 1, int(np.ceil(count / 2 + reach)))
    return float(ordered[first]), float(ordered[last])


def fastest(passes: Sequence[Sequence[float]], noise: float = 0.0) -> Estimate:
    """The least time of all: what is possible when nothing disturbs. It reaches to the slowest pass's least time."""
    least = sorted(min(part) for part in passes if len(part))
    if not least:
        raise ValueError("an estimate needs a sample")
    return Estimate(
        value=least[0],
        low=least[0] / (1 + noise),
        high=least[0] * (1 + hypot(least[-1] / least[0] - 1, noise)),
        samples=sum(map(len, passes)),
    )


def outliers(samples: Sequence[float] | np.ndarray) -> int:
    """Samples further from the median than five times what is usual."""
    series = np.asarray(samples, dtype=float)
    middle = np.median(series)
    usual = MAD_TO_SIGMA * float(np.median(np.abs(series - middle)))
    return int((np.abs(series - middle) > max(_FAR_SIGMAS * usual, 0.01 * abs(middle))).sum())
