"""Assertions for tests: that a change made nothing slower, and left the numbers right."""

from collections.abc import Callable

from redline.errors import UsageError
from redline.numerics import Numerics
from redline.report.trial.trial_report import TrialReport
from redline.trials.trial_pairs import TrialOptions
from redline.trials.try_calls import try_calls
from redline.verbs.compare_numbers import compare_numbers
from redline.verbs.compare_programs import Program, compare_programs

Timeable = Program | Callable[[], object]


def assert_not_slower(
    before: Timeable, after: Timeable, *, by: float = 0.0, options: TrialOptions | None = None
) -> TrialReport:
    """Time both in turns: two functions without arguments, or two command lines.

    Fails where all of the 95 % interval is beyond `by`, a share of the time before. An interval that is not does not
    fail, as it proves nothing; look at the report that is returned, which says how wide it is.
    """
    if callable(before) and callable(after):
        report = TrialReport(trial=try_calls(before, after, options or TrialOptions()))
    elif callable(before) or callable(after):
        raise UsageError("assert_not_slower: give two functions, or two command lines")
    else:
        report = compare_programs(before, after, options=options)
    known = report.trial.decision.estimate if report.trial and report.trial.decision else None
    if known is not None and known.low > by:
        raise AssertionError(repr(report))
    return report


def assert_same_numbers(before: Program, after: Program, *, claims: Numerics | str | None = None) -> TrialReport:
    """Run both programs for a few steps; fails where the numbers differ by more than the change claims."""
    report = compare_numbers(before, after, claims=claims)
    if report.numbers is not None and not report.numbers.holds:
        raise AssertionError(report.rendered("text"))
    return report
