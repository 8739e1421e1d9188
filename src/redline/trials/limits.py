"""Limits that a user sets on a comparison, such as `slower>3%`: parsed, and held against what was measured."""

import re
from dataclasses import dataclass

from redline.errors import UsageError
from redline.ledger.accounts import ACCOUNTS
from redline.trials.recordings import RecordingDifference
from redline.trials.trial_result import TrialResult

SLOWER = "slower"
_WRITTEN = re.compile(r"\s*(?P<what>[a-z][a-z _-]*?)\s*>\s*(?P<number>\d+(?:\.\d+)?)\s*%\s*", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class DifferenceLimit:
    """How much the step, or an account, may grow; as a share of the step before."""

    text: str
    what: str  # SLOWER, or the name of an account
    share: float


@dataclass(frozen=True, kw_only=True)
class LimitOutcome:
    """Whether a limit is crossed; and what is to be said of it, "" where it is kept."""

    crossed: bool
    said: str


def parse(text: str) -> DifferenceLimit:
    """Raises UsageError, which says what can be written."""
    written = _WRITTEN.fullmatch(text)
    names = [SLOWER, *map(str, ACCOUNTS)]
    if written is None:
        raise UsageError(f"compare: {text!r}: write a limit such as slower>3%")
    what = re.sub(r"[_-]", " ", written["what"]).lower()
    if what not in names:
        raise UsageError(f"compare: {text!r}: there is no {what!r}; there are: {', '.join(names)}")
    return DifferenceLimit(text=text.strip(), what=what, share=float(written["number"]) / 100)


def check(limit: DifferenceLimit, difference: RecordingDifference) -> LimitOutcome:
    """The step is held against its interval: it is slower only where all of that is."""
    grown = _grown(limit, difference)
    if grown <= limit.share:
        return LimitOutcome(crossed=False, said="")
    unmeasured = "" if difference.judgement.of_measurements else ", which nobody measured"  # a plan or a what-if
    said = f"{limit.text}: {100 * grown:+.1f} % of the step{unmeasured}"
    if limit.what != SLOWER:
        return LimitOutcome(crossed=True, said=said)
    interval = difference.interval
    if interval is not None and interval.low > limit.share:
        work = f"; its known work changed by {100 * difference.work.change:+.1f} %" if difference.work.differs else ""
        return LimitOutcome(crossed=True, said=said + work)
    return LimitOutcome(crossed=False, said=f"{said}, but within the spread of the steps: not counted")


def refuse_account(limit: DifferenceLimit) -> None:
    """Before programs are timed for minutes: they have no accounts."""
    if limit.what != SLOWER:
        raise UsageError(f"compare: {limit.text!r}: programs in turns have no accounts; only {SLOWER} can be limited")


def check_trial(limit: DifferenceLimit, trial: TrialResult) -> LimitOutcome:
    """By the interval of the pairs: it is slower only where all of that is."""
    known = trial.decision.estimate if trial.decision else None
    if known is None or known.change <= limit.share:
        return LimitOutcome(crossed=False, said="")
    said = f"{limit.text}: {100 * known.change:+.1f} %"
    if known.low > limit.share:
        return LimitOutcome(crossed=True, said=said)
    return LimitOutcome(crossed=False, said=f"{said}, but its interval begins below: not counted")


def _grown(limit: DifferenceLimit, difference: RecordingDifference) -> float:
    if limit.what == SLOWER or not difference.step.before_ns:
        return difference.change
    account = next(row for row in difference.accounts if row.name == limit.what)
    return float(account.difference_ns / difference.step.before_ns)
