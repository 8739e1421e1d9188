"""`redline.compare_numbers`: whether a changed program still computes what the unchanged one does."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from redline.errors import UsageError
from redline.launch.levers import parse_lever
from redline.launch.number_check import STEPS
from redline.launch.outside.trial_command import TrialCommand
from redline.numerics import Numerics
from redline.report.trial.trial_report import TrialReport
from redline.trials.numbers.check import check_numbers
from redline.trials.numbers.kept_runs import check_kept
from redline.trials.numbers.recorded_runs import NumbersReference
from redline.verbs.compare_programs import Program, command_of

_BY_STRICTNESS = (Numerics.BITWISE, Numerics.REASSOCIATION, Numerics.LOWER_PRECISION)


def compare_numbers(
    before: Program,
    after: Program | None = None,
    *,
    levers: Sequence[str] = (),
    claims: Numerics | str | None = None,
    steps: int = STEPS,
    allow_writes: bool = False,
) -> TrialReport:
    """Run both for a few steps with the same seed and data, and hold every tensor of one against that of the other.

    What the change claims is by default what its levers do, or sums in another order. The unchanged program runs three
    more times with rounding errors of that class: what those change is the floor that differences are measured by.
    """
    if (after is None) == (not levers):
        raise UsageError("compare: give another program, or levers to try on one")
    claimed = claim_of(claims, levers)
    chosen = tuple(str(parse_lever(text)) for text in levers)
    changed = command_of(before, chosen) if after is None else command_of(after)
    with TemporaryDirectory(prefix="redline-numbers-") as folder:
        unchanged = _checkable(command_of(before))
        reference = NumbersReference(unchanged, Path(folder), steps=steps, allow_writes=allow_writes)
        numbers = check_numbers(reference, _checkable(changed), claimed=claimed)
        return TrialReport(trial=None, numbers=numbers)


def compare_kept_numbers(before: Path, after: Path, claims: Numerics | str | None = None) -> TrialReport:
    """Of two folders that `redline run --numbers` has written."""
    return TrialReport(trial=None, numbers=check_kept(before, after, claimed=claim_of(claims, ())))


def claim_of(claims: Numerics | str | None, levers: Sequence[str]) -> Numerics:
    """What the change may do to the numbers at most."""
    if claims is not None:
        known = {str(numerics): numerics for numerics in _BY_STRICTNESS}
        if str(claims) not in known:
            raise UsageError(
                f"compare: {str(claims)!r} is no class of numbers that can be proven; {', '.join(known)} are"
            )
        return known[str(claims)]
    said = [parse_lever(text).kind.numerics for text in levers]
    provable = [numerics for numerics in said if numerics in _BY_STRICTNESS]
    return max([Numerics.REASSOCIATION, *provable], key=_BY_STRICTNESS.index)


def _checkable(command: TrialCommand) -> TrialCommand:
    if command.python is None:
        raise UsageError(f"compare: numbers are those of a Python program: {command.why_unwatched}")
    return command
