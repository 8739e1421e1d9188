"""The chart of a trial: every pair as a dot, and what they say together."""

from dataclasses import dataclass
from math import ceil, floor, log10

from redline.report.language import _
from redline.report.trial.sentences import signed_or_open
from redline.trials.trial_result import TrialResult

_LEAST_SPAN = 0.02  # of the time: a chart of less would make noise look like much
_MARGIN = 0.06  # of the chart, above and below
_MOST_TICKS = 6


@dataclass(frozen=True, kw_only=True)
class PairsChart:
    """Every pair by its order, and how far it changed; the estimate with its interval. In percent of the drawing."""

    dots: tuple[tuple[float, float, str], ...]  # across, down, what it is
    ticks: tuple[tuple[float, str], ...]  # down, what it is
    zero: float
    estimate: float
    low: float
    high: float


def pairs_about() -> str:
    return _(
        "Change of the time in the order in which the pairs ran; above 0: more time with the change. Dashed: the "
        "estimate; the band is its 95 % interval."
    )


def pairs_chart(trial: TrialResult) -> PairsChart | None:
    """None without a pair."""
    if trial.decision is None:
        return None
    changes = [pair.after_s / pair.before_s - 1 for pair in trial.pairs]
    known = trial.decision.estimate
    bounds = [bound for bound in (known.low, known.high) if abs(bound) < 1]
    shown = [0.0, known.change, *bounds, *_without_extremes(changes)]
    middle, span = (max(shown) + min(shown)) / 2, max(max(shown) - min(shown), _LEAST_SPAN)

    def down(change: float) -> float:
        share = max(-0.5, min(0.5, (change - middle) / span))
        return round(100 * (0.5 - share * (1 - 2 * _MARGIN)), 2)

    across = 100 / len(changes)
    return PairsChart(
        dots=tuple(
            (round((number + 0.5) * across, 2), down(change), signed_or_open(change))
            for number, change in enumerate(changes)
        ),
        ticks=tuple((down(tick), signed_or_open(tick)) for tick in _ticks(middle - span / 2, middle + span / 2)),
        zero=down(0.0),
        estimate=down(known.change),
        low=down(known.low),
        high=down(known.high),
    )


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between the two."""
    rough = (high - low) / (_MOST_TICKS - 1)
    power = 10.0 ** floor(log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [number * step for number in range(ceil(low / step), floor(high / step) + 1)]


def _without_extremes(changes: list[float]) -> list[float]:
    """The middle nine tenths: one disturbed pair must not flatten all others. It is drawn at the edge."""
    ordered = sorted(changes)
    cut = len(ordered) // 20
    return ordered[cut : len(ordered) - cut]
