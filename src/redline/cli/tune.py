"""`redline tune` on the command line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from redline.cli.arguments import (
    FORMATS,
    Report,
    deliver_report,
    language,
    refuse_unknown_format,
    refuse_unprintable_page,
)
from redline.cli.compare import jobs_end_with_us
from redline.cli.options import Options, Verb, flag, value, values
from redline.cli.output import point_to, quoted, remark
from redline.cli.values import positive, size_bytes
from redline.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redline.tuning.candidates import Consent, LeverCandidate
    from redline.tuning.measurements import TuneOptions
    from redline.tuning.search import Goal
    from redline.tuning.trial_folder import Question
    from redline.tuning.tune_result import Rejected, Rung

LOWER_PRECISION = "lower-precision"
_REPORT = "report.html"


class Goals(Options):
    """What is wanted, and what is allowed"""

    minimize: str = value("WHAT", "time of a step (default), or memory", default="time", choices=("time", "memory"))
    memory_limit: int = value(
        "SIZE",
        "limit of the accelerator's memory, or of the process's without one, such as 8GiB",
        default=0,
        read=size_bytes,
    )
    allow: tuple[str, ...] = values(
        "CHANGE",
        f"also try what changes the numbers: {LOWER_PRECISION}, or a lever by its name, such as batch-times=4",
    )
    tried: tuple[str, ...] = values("LEVER", "also try this; its numbers must hold", "--try")
    without: tuple[str, ...] = values("LEVER", "do not try this")


class Trials(Options):
    """How it is tried"""

    steps: int = value("N", "steps of each process that is timed (default: 30)", default=30, read=positive)
    hangs_after: int = value(
        "SECONDS", "treat a job as hung after this long without a step (default: 180)", default=180, read=positive
    )
    allow_writes: bool = flag("allow the program to modify your files, each time that it runs")
    yes: bool = flag("begin without asking", "-y")


class TuneArguments(Goals, Trials, Report):
    """Find the levers that make a script faster and keep its numbers right, each proven."""

    verb = "tune"
    usage = "[options] -- train.py | command  [its own arguments]"
    example = "redline tune --budget 10 -- train.py --its-own args"
    program: tuple[str, ...] = ()
    budget: int = value("MINUTES", "time at most (default: 20)", default=20, read=positive)
    record: str | None = value(
        "FOLDER",
        "where every trial is kept; rerun with the same folder to resume (default: one for the script, in "
        "redline-tune)",
    )
    verbose: bool = flag("what is being measured, while it is", "-v", either="loudness")

    @classmethod
    def split(cls, words: list[str]) -> tuple[list[str], dict[str, Any]]:
        """What follows `--` is a program with options of its own."""
        at = words.index("--") if "--" in words else len(words)
        program = tuple(words[at + 1 :])
        if not program and not {"-h", "--help"}.intersection(words):
            raise UsageError("tune: which command? give it after `--`: redline tune -- train.py")
        return words[:at], {"program": program}


def run(options: TuneArguments) -> int:
    from redline.report.language import speaking
    from redline.verbs.tune import tune

    refuse_unknown_format("tune", options.output, tuple(FORMATS))
    refuse_unprintable_page(options)
    with speaking(language(options)), jobs_end_with_us():
        report = tune(
            options.program,
            options=_options(options),
            consent=_consent(options),
            goal=_goal(options),
            record=options.record,
            watcher=_Watcher(options),
        )
        folder = report.result.folder
        report.save(folder / _REPORT, force=True)
        deliver_report(options, report.rendered)
    if not options.quiet and options.form == "text":
        point_to(f"open {quoted([str(folder / _REPORT)])}")
    return 0


def _options(options: TuneArguments) -> TuneOptions:
    from redline.tuning.measurements import TuneOptions

    return TuneOptions(
        budget_s=60.0 * options.budget,
        process_steps=options.steps,
        stall_s=float(options.hangs_after),
        allow_writes=options.allow_writes,
    )


def _consent(options: TuneArguments) -> Consent:
    from redline.capture.levers import parse_lever
    from redline.tuning.candidates import Consent

    named = [allowed for allowed in options.allow if allowed != LOWER_PRECISION]
    return Consent(
        lower_precision=LOWER_PRECISION in options.allow,
        semantics=tuple(str(parse_lever(lever)) for lever in named),
        tried=tuple(str(parse_lever(lever)) for lever in options.tried),
        never=tuple(options.without),
    )


def _goal(options: TuneArguments) -> Goal:
    from redline.tuning.search import Goal
    from redline.tuning.tune_result import Objective

    return Goal(objective=Objective(options.minimize), memory_limit_bytes=options.memory_limit)


class _Watcher:
    """Tells on stderr what the search does."""

    def __init__(self, options: TuneArguments) -> None:
        self._options = options

    def planned(self, step_s: float, candidates: Sequence[LeverCandidate], wrote: Sequence[str]) -> bool:
        from redline.report.tune.progress_sentences import plan_lines

        if not self._options.quiet:
            for line in plan_lines(step_s, candidates, 60.0 * self._options.budget):
                remark(line)
        if wrote and not self._options.allow_writes:
            self._refuse_unless_asked(wrote)
        return self._agreed("begin?") if self._can_ask() else True

    def asked(self, question: Question) -> None:
        from redline.report.tune.progress_sentences import asked_line

        if self._options.verbose:
            remark(asked_line(question))

    def told(self, outcome: Rung | Rejected) -> None:
        from redline.report.tune.progress_sentences import told_line

        line = told_line(outcome)
        if line and not self._options.quiet:
            remark(line)

    def _refuse_unless_asked(self, wrote: Sequence[str]) -> None:
        what = f"the program writes to {wrote[0]}, outside of its folder, each time that it runs"
        if not self._can_ask():
            raise UsageError(f"tune: {what}; let it write nothing there, or allow it with --allow-writes")
        remark(what, "WARNING")

    def _can_ask(self) -> bool:
        return not self._options.yes and sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()

    @staticmethod
    def _agreed(question: str) -> bool:
        print(f"{question} [Y/n] ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip().lower() in ("", "y", "yes")


VERB = Verb(TuneArguments, run)
