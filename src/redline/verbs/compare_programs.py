"""`redline compare` of programs: timed in turns, numbers checked, asserted in tests; trials that were kept."""

import shlex
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from redline.capture.levers import parse_lever
from redline.capture.number_check import STEPS
from redline.capture.supervisor.trial_command import TrialCommand, trial_command
from redline.errors import UsageError
from redline.numerics import Numerics
from redline.progress import Progress, ProgressStage, silent
from redline.report.trial.trial_report import TrialReport
from redline.storage import path_of
from redline.trials.numbers.check import check_kept, check_numbers
from redline.trials.numbers.recorded_runs import NumbersReference
from redline.trials.paired_sequence import Decision
from redline.trials.trial_jobs import try_commands
from redline.trials.trial_pairs import TrialOptions
from redline.trials.trial_record import KIND, read_trial
from redline.trials.try_calls import try_calls
from redline.trials.try_levers import try_lever
from redline.tuning.trial_folder import STATE, TRIALS
from redline.verbs.recording_kind import kind_of

Program = str | Sequence[str]


def compare_programs(
    before: Program,
    after: Program | None = None,
    *,
    levers: Sequence[str] = (),
    options: TrialOptions | None = None,
    progress: Progress = silent,
) -> TrialReport:
    """Run `before` and `after` in turns, or `before` with and without levers, until it is decided or all is spent.

    A program is a command line, or its words. A lever that can be switched between two steps is tried inside one
    process; everything else in pairs of processes. They run in a folder of their own that looks like the current one;
    a program that writes to files of the user is stopped before it does, unless the options allow it.
    """
    if (after is None) == (not levers):
        raise UsageError("compare: give another program, or levers to try on one")
    chosen = options or TrialOptions()
    done = count(1)

    def tell(decision: Decision) -> None:
        progress(ProgressStage.TIME, next(done), chosen.pairs)

    progress(ProgressStage.TIME, 0, chosen.pairs)
    if after is not None:
        return TrialReport(trial=try_commands(command_of(before), command_of(after), chosen, tell))
    known = [parse_lever(text) for text in levers]
    changed = command_of(before, tuple(map(str, known)))
    if changed.python is None:
        raise UsageError(f"compare: levers need a Python program: {changed.why_unwatched}")
    if all(lever.kind.switchable for lever in known):
        return TrialReport(trial=try_lever(changed, chosen, tell))
    return TrialReport(trial=try_commands(command_of(before), changed, chosen, tell))


def command_of(program: Program, levers: tuple[str, ...] = ()) -> TrialCommand:
    return trial_command(shlex.split(program) if isinstance(program, str) else program, levers)


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


def trial_files(path: str | Path) -> list[Path]:
    """The file itself, or those of a search in this folder; none where it is something else."""
    known = path_of(path)
    if known.is_dir():
        return sorted((known / TRIALS).glob("*.json")) if (known / STATE).is_file() else []
    return [known] if kind_of(known) == KIND else []


def kept_trial(path: Path) -> TrialReport:
    """As it was shown when it was measured."""
    trial, numbers = read_trial(path)
    return TrialReport(trial=trial, numbers=numbers)
