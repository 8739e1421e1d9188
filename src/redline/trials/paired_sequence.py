"""How far a change moves the time of a step, by pairs in random order, with an interval that may be looked at any time.

Within a pair it is random which way ran first. So if the true difference of logarithms is `theta`, what is left of a
pair's difference, `rest = difference - theta`, is as likely above zero as below, however large it is, however skewed
the noise, and whatever the pairs before were. A bet on its sign is then a fair game: `exp(z) / cosh(z)` with
`z = stake * rest` is 1 on average. The product of such bets exceeds `1 / ALPHA` with a probability of at most `ALPHA`,
however often one looks. The interval has every `theta` against which the bets have not won that much yet.
"""

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import exp, expm1, log, log1p

import numpy as np
import numpy.typing as npt

ALPHA = 0.05
# In units of the median distance so far: small ones for faint differences, large ones for clear ones.
STAKES = (0.2, 0.5, 1.2, 3.0)
_WON = log(1 / ALPHA)
_MOST = 8.0  # beyond, in logarithms, there is no difference that anybody would time
_HALVINGS = 40
_Values = npt.NDArray[np.float64]
LEAST_PAIRS = 6
USUAL_PAIRS = 13  # of whole processes, until a change of a tenth was decided: docs/explanation/trials.md
MOST_PAIRS = 60
NEGLIGIBLE = 0.01  # a change that is smaller for certain is none


@dataclass(frozen=True, kw_only=True)
class PairedEstimate:
    """Of the change of the time, as a share of that without the change; negative where it got shorter."""

    change: float
    low: float
    high: float
    pairs: int


def estimate(before: Sequence[float], after: Sequence[float]) -> PairedEstimate:
    """From the times of each pair, at least one; each interval is cut by those of all shorter sequences."""
    differences = np.log(np.asarray(after, np.float64)) - np.log(np.asarray(before, np.float64))
    middle = _walsh_median(differences)
    return PairedEstimate(
        change=expm1(middle),
        low=_as_change(_bound(differences, middle, -1)),
        high=_as_change(_bound(differences, middle, +1)),
        pairs=len(differences),
    )


def excludes(before: Sequence[float], after: Sequence[float], change: float) -> bool:
    """Whether the interval lost this change at some time in the sequence."""
    differences = np.log(np.asarray(after, np.float64)) - np.log(np.asarray(before, np.float64))
    return _has_won(differences, log1p(change))


def _walsh_median(differences: _Values) -> float:
    """The median of the averages of all two: as robust as a median, and nearly as sharp as an average."""
    first, second = np.triu_indices(len(differences))
    return float(np.median((differences[first] + differences[second]) / 2))


def _as_change(bound: float) -> float:
    return exp(bound) - 1


def _bound(differences: _Values, middle: float, side: int) -> float:
    """The first `theta` beyond the middle against which the bets have won, now or before."""
    inside, outside = 0.0, _MOST
    if not _has_won(differences, middle + side * outside):
        return side * np.inf
    for _ in range(_HALVINGS):
        between = (inside + outside) / 2
        if _has_won(differences, middle + side * between):
            outside = between
        else:
            inside = between
    return middle + side * outside


def _has_won(differences: _Values, theta: float) -> bool:
    """Whether the bets against this theta had at some time won what they must."""
    rest = differences - theta
    typical = _running_medians(np.abs(rest).tolist())
    stakes = np.array([*STAKES, *(-stake for stake in STAKES)])[:, None]
    z = stakes * np.divide(rest, typical, out=np.zeros_like(rest), where=typical > 0)
    winnings = np.cumsum(z - _log_cosh(z), axis=1)
    wealth = np.logaddexp.reduce(winnings, axis=0) - log(len(stakes))
    return bool(wealth.max() >= _WON)


def _running_medians(values: Sequence[float]) -> _Values:
    ordered: list[float] = []
    medians = []
    for count, value in enumerate(values):
        insort(ordered, value)
        medians.append((ordered[count // 2] + ordered[(count + 1) // 2]) / 2)
    return np.array(medians)


def _log_cosh(z: _Values) -> _Values:
    absolute = np.abs(z)
    result: _Values = absolute + np.log1p(np.exp(-2 * absolute)) - log(2)
    return result


class TrialVerdict(StrEnum):
    """What the pairs say of a change."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "no measurable change"
    UNDECIDED = "undecided"


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What is known after some pairs."""

    verdict: TrialVerdict
    estimate: PairedEstimate

    @classmethod
    def of(cls, known: PairedEstimate, negligible: float = NEGLIGIBLE) -> "Decision":
        return cls(verdict=_verdict(known, negligible), estimate=known)


def decide(before: Sequence[float], after: Sequence[float], negligible: float = NEGLIGIBLE) -> Decision:
    """By the times of the pairs so far; it may be asked after every pair."""
    return Decision.of(estimate(before, after), negligible)


def _verdict(known: PairedEstimate, negligible: float) -> TrialVerdict:
    if known.pairs < LEAST_PAIRS:
        return TrialVerdict.UNDECIDED
    if known.high < 0:
        return TrialVerdict.FASTER
    if known.low > 0:
        return TrialVerdict.SLOWER
    is_same = -negligible < known.low and known.high < negligible
    return TrialVerdict.SAME if is_same else TrialVerdict.UNDECIDED
