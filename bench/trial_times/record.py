"""What one trial gave, kept as a line of JSON, and counts over many."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from redline.trials.paired_sequence import Decision, TrialVerdict, excludes
from redline.trials.trial_result import TimedPair


@dataclass(frozen=True, kw_only=True)
class TrialOutcome:
    """A trial of so many percent of extra work."""

    extra: int
    verdict: str
    change: float
    low: float
    high: float
    covered: bool  # the interval never lost the true change
    pairs: tuple[tuple[float, float], ...]  # seconds without and with
    steps: int  # of the job that it took; 0 for programs without


@dataclass(frozen=True, kw_only=True)
class TrialCounts:
    """Over trials of the same extra work."""

    extra: int
    trials: int
    found: int  # said to be slower
    same: int
    undecided: int
    wrong: int  # a verdict that is false: faster, or slower where nothing was added
    covered: int
    pairs: float  # median
    steps: float  # median


def outcome_of(extra: int, decision: Decision, pairs: Sequence[TimedPair], steps: int) -> TrialOutcome:
    before, after = [pair.before_s for pair in pairs], [pair.after_s for pair in pairs]
    return TrialOutcome(
        extra=extra,
        verdict=str(decision.verdict),
        change=decision.estimate.change,
        low=decision.estimate.low,
        high=decision.estimate.high,
        covered=not excludes(before, after, extra / 100),
        pairs=tuple(zip(before, after, strict=True)),
        steps=steps,
    )


def keep(path: Path, outcomes: Iterable[TrialOutcome]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(asdict(outcome)) + "\n" for outcome in outcomes)


def kept(path: Path) -> list[TrialOutcome]:
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [TrialOutcome(**{**known, "pairs": tuple(map(tuple, known["pairs"]))}) for known in map(json.loads, lines)]


def counts(outcomes: Sequence[TrialOutcome]) -> list[TrialCounts]:
    """By extra work."""
    return [
        _count([one for one in outcomes if one.extra == extra]) for extra in sorted({one.extra for one in outcomes})
    ]


def _count(outcomes: Sequence[TrialOutcome]) -> TrialCounts:
    extra = outcomes[0].extra
    slower = sum(one.verdict == TrialVerdict.SLOWER for one in outcomes)
    faster = sum(one.verdict == TrialVerdict.FASTER for one in outcomes)
    return TrialCounts(
        extra=extra,
        trials=len(outcomes),
        found=slower if extra else 0,
        same=sum(one.verdict == TrialVerdict.SAME for one in outcomes),
        undecided=sum(one.verdict == TrialVerdict.UNDECIDED for one in outcomes),
        wrong=faster + (0 if extra else slower),
        covered=sum(one.covered for one in outcomes),
        pairs=median(len(one.pairs) for one in outcomes),
        steps=median(one.steps for one in outcomes),
    )
