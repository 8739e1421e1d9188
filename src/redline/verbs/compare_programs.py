"""`redline.compare_programs`: which of two programs is faster, or whether a lever helps one, timed in turns."""

import shlex
from collections.abc import Sequence
from itertools import count

from redline.errors import UsageError
from redline.launch.levers import parse_lever
from redline.launch.outside.trial_command import TrialCommand, trial_command
from redline.progress import Progress, ProgressStage, silent
from redline.report.trial.trial_report import TrialReport
from redline.trials.decision import Decision
from redline.trials.trial_pairs import TrialOptions
from redline.trials.try_levers import try_lever
from redline.trials.try_programs import try_commands

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
