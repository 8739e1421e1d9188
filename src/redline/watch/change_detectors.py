"""Tests for changes of many series at once, window by window, against each one's own history, in memory that is flat.

A jump is told by an e-detector of Shiryaev and Roberts. For each size of a shift, and whether it begins now or began
before, evidence is multiplied by how much more probable the new value is with the shift than without; the sum over
all beginnings is a process whose expectation grows by one per window as long as nothing changes, whatever else is in
the past. Stopping when it reaches A therefore gives at least A windows between false alarms on average. A series of
many counts once: A is multiplied by their number.

The probabilities are of Student's t with few degrees of freedom (tails as heavy as those of step times), around the
median of the last windows, after the part that the window before predicts (autocorrelation), in units of the median
deviation. What one window can add is capped such that two are never enough: an outlier is no change.

A drift that is slower than the median follows is told by its size: the median of the last windows differs from that of
the first by more than the noise and more than a wave of a day.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

LEARNING = 24  # windows before anything is said
LEARNING_AGAIN = 12  # after a change
WINDOWS_BETWEEN_FALSE_ALARMS = 20_000.0  # of a job, on average at least
_GUARD = 3  # newest windows that are not in the level that they are compared with
_LEVEL = 24 + _GUARD
_HISTORY = 96  # deviations that tell scale and correlation
_RECENT = 24  # of them that may raise the scale, where noise has grown
_REFRESHED = 6  # windows after which the noise is told anew: it changes slowly, and telling it is most of the work
_SHIFTS = np.array([4.0, 5.5, 7.5, 10.0, 14.0, 20.0, 30.0])  # in units of the noise
_ALL_SHIFTS = np.concatenate([_SHIFTS, -_SHIFTS])
_DEGREES = 5.0  # of freedom
_LARGEST = 30.0  # deviation that is told from larger ones
_MOST_PREDICTED = 8.0  # deviation of the window before that counts: a shock that fades is no shift
_INNER = 3.0  # deviations that tell the correlation
_MOST_CORRELATION = 0.8
_SMOOTHED = 6  # windows, for drift
_OF_DRIFT = _HISTORY // 2  # newest deviations that a drift may be in
_DRIFT_NOISE = 6.0  # times the noise that a drift must be
_NORMAL_MAD = 1.4826
_UNLUCKY = 2.0  # units of noise by which three windows may hide a jump that is still claimed to be named
_TAIL = 0.9  # of deviations are smaller; heavy tails show there before they show in the middle
_NORMAL_TAIL = 1 / 1.645


@dataclass(frozen=True, kw_only=True)
class DetectedChanges:
    """Of each series: whether it changed, how, by how much, and how many of the newest windows are after the change."""

    jumped: Mask
    drifted: Mask
    size: Floats  # signed, in the unit of the series
    windows: npt.NDArray[np.int64]

    @property
    def changed(self) -> Mask:
        return self.jumped | self.drifted


class ChangeDetectors:
    """One test per series. Series are added as they appear, and a value may be missing (NaN)."""

    def __init__(self) -> None:
        self._floor, self._drift_floor = np.empty(0), np.empty(0)
        self._values = np.empty((0, _LEVEL))  # since the last change, newest last
        self._deviations = np.empty((0, _HISTORY))  # from the level, newest last
        self._pending = np.empty((0, _GUARD))  # deviations that may still turn out to be a change
        self._evidence = np.empty((0, len(_ALL_SHIFTS)))
        self._seen, self._needed = np.empty(0, np.int64), np.empty(0, np.int64)
        self._anchor = np.empty(0)
        self._told: tuple[Floats, Floats] | None = None  # noise, until it is told anew
        self._told_before: tuple[Floats, Floats] | None = None  # noise before a drift could begin, as long
        self._smallest: dict[int, float] = {}  # jumps, as long as that noise holds
        self._updates = 0

    def __len__(self) -> int:
        return len(self._floor)

    def add_series(self, count: int, floor: float, drift_floor: float) -> range:
        """Their places. Noise below the floor counts as the floor, and a drift below its floor as none."""
        first = len(self)
        self._floor = np.append(self._floor, np.full(count, floor))
        self._drift_floor = np.append(self._drift_floor, np.full(count, drift_floor))
        for name in ("_values", "_deviations", "_pending"):
            columns = getattr(self, name)
            setattr(self, name, np.vstack([columns, np.full((count, columns.shape[1]), np.nan)]))
        self._evidence = np.vstack([self._evidence, np.zeros((count, len(_ALL_SHIFTS)))])
        self._seen = np.append(self._seen, np.zeros(count, np.int64))
        self._needed = np.append(self._needed, np.full(count, LEARNING))
        self._anchor = np.append(self._anchor, np.full(count, np.nan))
        self._told = self._told_before = None
        return range(first, len(self))

    def usual(self, series: int) -> float:
        """The median of the windows before, since the last change."""
        return float(_quantile(self._values[series : series + 1])[0])

    def update(self, values: Floats) -> DetectedChanges:
        """With the values of one window, one for each series."""
        known = ~np.isnan(values)
        tested = known & (self._seen >= self._needed)
        self._anchor_learned(tested & np.isnan(self._anchor))
        self._updates += 1
        if self._updates % _REFRESHED == 0:
            self._told = self._told_before = None
        level, scale, correlation = _quantile(self._values[:, :-_GUARD]), *self._noise()
        jumped = self._jumped(np.where(tested, values - level, 0.0), scale, correlation, tested)
        self._push(values, values - level, known, tested)
        drifted, drift = self._drifted(tested)
        newest = self._values[:, -_GUARD:]
        size = np.where(jumped, _quantile(newest) - level, np.where(drifted, drift, 0.0))
        windows = np.where(jumped, _beyond(newest - level[:, None], size), np.where(drifted, _SMOOTHED, 0))
        self.start_again(jumped | drifted, windows)
        return DetectedChanges(jumped=jumped, drifted=drifted & ~jumped, size=size, windows=windows)

    def start_again(self, which: Mask, windows: npt.NDArray[np.int64]) -> None:
        """Forget the level of these series, but for the newest windows; their noise stays known."""
        kept = np.arange(_LEVEL) >= _LEVEL - windows[:, None]
        self._values[which[:, None] & ~kept] = np.nan
        self._pending[which], self._evidence[which], self._anchor[which] = np.nan, 0.0, np.nan
        self._seen[which] = windows[which]
        learned = ~np.isnan(self._deviations).all(axis=1)
        self._needed[which] = np.where(learned, LEARNING_AGAIN, LEARNING)[which]

    def smallest_jump(self, series: int) -> float:
        """The smallest one that three windows tell, where noise makes each of them look smaller by twice its scale."""
        scale, correlation = (float(column[series]) for column in self._noise())
        if series not in self._smallest:
            self._smallest[series] = scale * _smallest_told(correlation, self._threshold, self._cap)
        return self._smallest[series]

    def smallest_drift(self, series: int) -> float:
        """That is one; the wave of a day may hide as much again as it has."""
        return float(self._least_drift()[series])

    @property
    def _threshold(self) -> float:
        return WINDOWS_BETWEEN_FALSE_ALARMS * max(len(self), 1)

    @property
    def _cap(self) -> float:
        """Three windows that one of the shifts explains are just enough."""
        return float((self._threshold * len(_ALL_SHIFTS)) ** (1 / 3) * 1.02)

    def _anchor_learned(self, learned: Mask) -> None:
        if not learned.any():
            return
        self._anchor[learned] = _quantile(self._values[learned])
        fresh = learned & np.isnan(self._deviations).all(axis=1)
        self._told = self._told_before = None
        self._deviations[fresh, -_LEVEL:] = self._values[fresh] - self._anchor[fresh, None]

    def _noise(self) -> tuple[Floats, Floats]:
        """The scale of what the window before does not predict, and the correlation with it."""
        if self._told is None:
            self._told, self._smallest = _noise_of(self._deviations, self._floor), {}
        return self._told

    def _jumped(self, deviation: Floats, scale: Floats, correlation: Floats, tested: Mask) -> Mask:
        before = np.nan_to_num(self._pending[:, -1]) / scale
        grown = _grown(self._evidence, deviation / scale, before, correlation, self._cap)
        self._evidence = np.where(tested[:, None], grown, self._evidence)
        jumped: Mask = tested & (self._evidence.sum(axis=1) >= self._threshold)
        return jumped

    def _push(self, values: Floats, deviation: Floats, known: Mask, tested: Mask) -> None:
        self._values[known] = np.column_stack([self._values[known, 1:], values[known]])
        oldest = self._pending[:, 0]
        settled = tested & ~np.isnan(oldest)
        self._deviations[settled] = np.column_stack([self._deviations[settled, 1:], oldest[settled]])
        self._pending[tested] = np.column_stack([self._pending[tested, 1:], deviation[tested]])
        self._seen += known

    def _drifted(self, tested: Mask) -> tuple[Mask, Floats]:
        drift = _quantile(self._values[:, -_SMOOTHED:]) - self._anchor
        return tested & (np.nan_to_num(np.abs(drift)) > self._least_drift()), drift

    def _least_drift(self) -> Floats:
        """By the noise before it could begin: deviations from a median that lags behind a drift look like noise."""
        if self._told_before is None:
            enough = (~np.isnan(self._deviations[:, :-_OF_DRIFT])).sum(axis=1) >= _OF_DRIFT // 2
            before = np.where(enough[:, None], self._deviations[:, :-_OF_DRIFT], self._deviations[:, -_OF_DRIFT:])
            self._told_before = _noise_of(before, self._floor)
        scale, correlation = self._told_before
        least: Floats = np.maximum(self._drift_floor, _DRIFT_NOISE * scale / np.sqrt(1 - correlation**2))
        return least


def _noise_of(deviations: Floats, floor: Floats) -> tuple[Floats, Floats]:
    middle = _quantile(deviations)[:, None]
    around = np.abs(deviations - middle)
    recent = around[:, -_RECENT:]
    spread = _NORMAL_MAD * np.maximum(_quantile(around), _quantile(recent))
    tail = _NORMAL_TAIL * np.maximum(_quantile(around, _TAIL), _quantile(recent, _TAIL))
    marginal = np.nan_to_num(np.maximum(spread, tail))
    unit = np.maximum(marginal, 1e-12)[:, None]
    inner = np.nan_to_num(np.clip((deviations - middle) / unit, -_INNER, _INNER))
    products = (inner[:, 1:] * inner[:, :-1]).sum(axis=1) / np.maximum((inner**2).sum(axis=1), 1e-12)
    correlation = np.clip(products, 0.0, _MOST_CORRELATION)
    count = np.maximum((~np.isnan(deviations)).sum(axis=1), 1)
    uncertain = 1 + 1 / np.sqrt(count)  # of a median deviation
    return np.maximum(marginal * np.sqrt(1 - correlation**2) * uncertain, floor), correlation


def _grown(evidence: Floats, deviation: Floats, before: Floats, correlation: Floats, cap: float) -> Floats:
    """Evidence for each shift, [series, shift], with one more window; deviations are in units of the noise."""
    deviation, before = (np.clip(amount, -_LARGEST, _LARGEST)[:, None] for amount in (deviation, before))
    correlation = correlation[:, None]
    none = deviation - correlation * np.clip(before, -_MOST_PREDICTED, _MOST_PREDICTED)
    shifted_before = np.clip(before - _ALL_SHIFTS, -_MOST_PREDICTED, _MOST_PREDICTED)
    begun = _more_probable(none, none - _ALL_SHIFTS, cap)
    going_on = _more_probable(none, deviation - _ALL_SHIFTS - correlation * shifted_before, cap)
    grown: Floats = begun / len(_ALL_SHIFTS) + evidence * going_on
    return grown


def _smallest_told(correlation: float, threshold: float, cap: float) -> float:
    """In units of the noise."""
    sizes = np.arange(4.0, 20.0, 0.5)
    evidence, before = np.zeros((len(sizes), len(_ALL_SHIFTS))), np.zeros(len(sizes))
    for _ in range(_GUARD):
        evidence = _grown(evidence, sizes - _UNLUCKY, before, np.full(len(sizes), correlation), cap)
        before = sizes - _UNLUCKY
    return float(sizes[evidence.sum(axis=1) >= threshold].min(initial=sizes[-1]))


def _more_probable(residual: Floats, with_shift: Floats, cap: float) -> Floats:
    ratio = (1 + residual**2 / _DEGREES) / (1 + with_shift**2 / _DEGREES)
    probable: Floats = np.minimum(ratio * ratio * ratio, cap)  # to the power of (degrees + 1) / 2
    return probable


def _beyond(deviations: Floats, size: Floats) -> npt.NDArray[np.int64]:
    """How many of the newest, without a gap, are beyond half of the size."""
    is_beyond = deviations * np.sign(size)[:, None] > np.abs(size)[:, None] / 2
    windows: npt.NDArray[np.int64] = np.cumprod(is_beyond[:, ::-1], axis=1).sum(axis=1)
    return np.maximum(windows, 1)


def _quantile(rows: Floats, share: float = 0.5) -> Floats:
    """Of each row without what is missing, or another quantile; NaN where all is missing."""
    ordered = np.sort(rows, axis=1)  # NaN last
    last = np.maximum((~np.isnan(rows)).sum(axis=1) - 1, 0)
    every, place = np.arange(len(rows)), share * last
    lower, upper = ordered[every, np.floor(place).astype(int)], ordered[every, np.ceil(place).astype(int)]
    quantile: Floats = lower + (upper - lower) * (place % 1)
    return quantile
