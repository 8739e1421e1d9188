"""When enough pairs have been timed, and what they say: faster, slower, no measurable change, or undecided."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from redline.trials.paired_sequence import PairedEstimate, estimate

LEAST_PAIRS = 6
USUAL_PAIRS = 13  # of whole processes, until a change of a tenth was decided: docs/explanation/trials.md
MOST_PAIRS = 60
NEGLIGIBLE = 0.01  # a change that is smaller for certain is none


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
