"""`redline tune` on the command line."""

from __future__ import annotations

import sys

from redline.cli.arguments import (
    add_language,
    add_output,
    format_of,
    language,
    positive,
    refuse_unknown_format,
    size_bytes,
)
from redline.cli.ended_jobs import jobs_end_with_us
from redline.cli.output import deliver, for_stdout, point_to, quoted, remark
from redline.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from redline.tuning.candidates import Consent, LeverCandidate
    from redline.tuning.measurements import TuneOptions
    from redline.tuning.search import Goal
    from redline.tuning.trial_folder import Question
    from redline.tuning.tune_result import Rejected, Rung

FORMATS = {".csv": "csv", ".html": "html", ".json": "json", ".md": "md", ".txt": "text"}  # by the extension of a file
LOWER_PRECISION = "lower-precision"
_DEFAULT_MINUTES = 20
_REPORT = "report.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "redline tune [options] -- train.py | command  [its own arguments]"
    parser.add_argument(
        "--budget", type=positive, default=_DEFAULT_MINUTES, metavar="MINUTES", help="time at most (default: 20)"
    )
    parser.add_argument(
        "--record",
        metavar="FOLDER",
        help="where every trial is kept, and from where a search that was ended goes on (default: one for the script, "
        "in redline-tune)",
    )
    what = parser.add_argument_group("what is wanted, and what is allowed")
    what.add_argument(
        "--minimize", choices=("time", "memory"), default="time", metavar="WHAT", help="time of a step, or memory"
    )
    what.add_argument(
        "--memory-limit",
        type=size_bytes,
        default=0,
        metavar="SIZE",
        help="of the accelerator, or of the process without one, such as 8GiB",
    )
    what.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="CHANGE",
        help=f"also try what changes the numbers: {LOWER_PRECISION}, or a lever by its name, such as batch-times=4",
    )
    what.add_argument(
        "--try", action="append", default=[], dest="tried", metavar="LEVER", help="also try this; its numbers must hold"
    )
    what.add_argument("--without", action="append", default=[], metavar="LEVER", help="do not try this")
    trial = parser.add_argument_group("how it is tried")
    trial.add_argument(
        "--steps", type=positive, default=30, metavar="N", help="steps of each process that is timed (default: 30)"
    )
    trial.add_argument(
        "--hangs-after",
        type=positive,
        default=180,
        metavar="SECONDS",
        help="a job that takes no step for so long hangs (default: 180)",
    )
    trial.add_argument(
        "--allow-writes", action="store_true", help="let the program write to files of yours, each time that it runs"
    )
    trial.add_argument("-y", "--yes", action="store_true", help="begin without asking")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")
    form.add_argument(
        "--format", choices=sorted(FORMATS.values()), metavar="FORMAT", help="text, html, md, json or csv"
    )
    add_language(parser)
    add_output(parser, verbose="what is being measured, while it is")


def parse(parser: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    """What follows `--` is a program with options of its own."""
    at = words.index("--") if "--" in words else len(words)
    options, others = parser.parse_known_args(words[:at])
    options.program = words[at + 1 :]
    if not options.program:
        raise UsageError("tune: which command? give it after `--`: redline tune -- train.py")
    if others:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    return options


def run(options: argparse.Namespace) -> int:
    from redline.report.language import speaking
    from redline.verbs.tune import tune

    refuse_unknown_format("tune", options.output, tuple(FORMATS))
    form = format_of(options, FORMATS)
    if form == "html" and options.output is None:
        raise UsageError("tune: an HTML report is 2 MB of text; give it a file, such as -o report.html")
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
        with for_stdout(options.output if form == "text" else form):
            text = report.rendered(form)
    deliver(text, options.output, force=options.force)
    if not options.quiet and form == "text":
        point_to(f"open {quoted([str(folder / _REPORT)])}")
    return 0


def _options(options: argparse.Namespace) -> TuneOptions:
    from redline.tuning.measurements import TuneOptions

    return TuneOptions(
        budget_s=60.0 * options.budget,
        process_steps=options.steps,
        stall_s=float(options.hangs_after),
        allow_writes=options.allow_writes,
    )


def _consent(options: argparse.Namespace) -> Consent:
    from redline.launch.levers import parse_lever
    from redline.tuning.candidates import Consent

    named = [allowed for allowed in options.allow if allowed != LOWER_PRECISION]
    return Consent(
        lower_precision=LOWER_PRECISION in options.allow,
        semantics=tuple(str(parse_lever(lever)) for lever in named),
        tried=tuple(str(parse_lever(lever)) for lever in options.tried),
        never=tuple(options.without),
    )


def _goal(options: argparse.Namespace) -> Goal:
    from redline.tuning.search import Goal
    from redline.tuning.tune_result import Objective

    return Goal(objective=Objective(options.minimize), memory_limit_bytes=options.memory_limit)


class _Watcher:
    """Tells on stderr what the search does."""

    def __init__(self, options: argparse.Namespace) -> None:
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
