"""`redline compare` of programs on the command line: two of them in turns, or one with and without a lever."""

from __future__ import annotations

from redline.cli.arguments import format_of, language, positive
from redline.cli.ended_jobs import jobs_end_with_us
from redline.cli.output import deliver, for_stdout, remark
from redline.cli.show_progress import progress
from redline.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from redline.report.trial.trial_report import TrialReport
    from redline.trials.limits import DifferenceLimit
    from redline.trials.trial_pairs import TrialOptions

EXIT_CROSSED = 1
FORMATS = {".csv": "csv", ".html": "html", ".json": "json", ".md": "md", ".txt": "text"}  # by the extension of a file
_DEFAULT_MINUTES = 30


def add_trial_arguments(parser: argparse.ArgumentParser) -> None:
    trial = parser.add_argument_group("programs, timed in turns")
    trial.add_argument("--a", metavar="CMD", help="the program before the change, as one word: --a 'python train.py'")
    trial.add_argument("--b", metavar="CMD", help="the program after it")
    trial.add_argument(
        "--with",
        action="append",
        dest="levers",
        metavar="LEVER",
        help="try this change on the command after `--`, such as fused or workers=4 (docs/reference/levers.md), or "
        "all of a tuned.toml of `redline tune`",
    )
    trial.add_argument("--pairs", type=positive, metavar="N", help="pairs at most (default: 60)")
    trial.add_argument(
        "--steps", type=positive, metavar="N", help="steps of each process, where processes are timed (default: 30)"
    )
    trial.add_argument(
        "--max-time", type=positive, metavar="MINUTES", help=f"time at most (default: {_DEFAULT_MINUTES})"
    )
    trial.add_argument(
        "--allow-writes", action="store_true", help="let the programs write to files of yours, each time that they run"
    )
    trial.add_argument("--numbers", action="store_true", help="also check that the numbers are still right")
    trial.add_argument("--numbers-only", action="store_true", help="check the numbers, and time nothing")
    trial.add_argument(
        "--claims",
        choices=("bitwise", "reassociation", "lower precision"),
        metavar="CLASS",
        help="what the change may do to the numbers: bitwise, reassociation (the same sums in another order) or "
        "'lower precision' (default: as the lever says, at least reassociation)",
    )
    trial.add_argument("--seed", type=positive, metavar="N", help="of the random order in the pairs (default: any)")


def run_trial(options: argparse.Namespace) -> int:
    from redline.report.language import speaking
    from redline.trials import limits

    _refuse_mixtures(options)
    form = format_of(options, FORMATS)
    set_limits = [limits.parse(text) for text in options.fail_on or ()]
    for limit in set_limits:
        limits.refuse_account(limit)
    with jobs_end_with_us():
        report = _report(options)
    with speaking(language(options)), for_stdout(options.output if form == "text" else form):
        text = report.rendered(form)
    deliver(text, options.output, force=options.force)
    return _limited(set_limits, report)


def _report(options: argparse.Namespace) -> TrialReport:
    """The numbers first, where they are asked for: never while time is measured."""
    from pathlib import Path

    from redline.report.trial.trial_report import TrialReport
    from redline.tuning.tuned_file import levers_of
    from redline.verbs.compare_numbers import compare_kept_numbers, compare_numbers
    from redline.verbs.compare_programs import compare_programs

    if options.paths:
        kept, other = map(Path, options.paths)
        return compare_kept_numbers(kept, other, claims=options.claims)
    before, levers = options.a or options.program, levers_of(options.levers or ())
    numbers = timed = None
    if options.numbers or options.numbers_only:
        numbers = compare_numbers(
            before, options.b, levers=levers, claims=options.claims, allow_writes=options.allow_writes
        ).numbers
    if not options.numbers_only:
        with progress(options) as tell:
            trial_options = _trial_options(options)
            timed = compare_programs(before, options.b, levers=levers, options=trial_options, progress=tell).trial
    return TrialReport(trial=timed, numbers=numbers)


def _trial_options(options: argparse.Namespace) -> TrialOptions:
    from redline.trials.trial_pairs import TrialOptions

    given = {"pairs": options.pairs, "steps": options.steps, "seed": options.seed}
    known = {name: value for name, value in given.items() if value is not None}
    return TrialOptions(
        max_time_s=60.0 * (options.max_time or _DEFAULT_MINUTES), allow_writes=options.allow_writes, **known
    )


def _refuse_mixtures(options: argparse.Namespace) -> None:
    if options.redact:
        raise UsageError("compare: --redact is for recordings; what is said of programs and numbers is not redacted")
    if options.numbers_only and not (options.a or options.b or options.levers):
        if len(options.paths) != 2:
            raise UsageError("compare: numbers of two programs, or of two folders that `redline run --numbers` wrote")
        return
    if options.levers and (options.a or options.b):
        raise UsageError("compare: give --a and --b, or --with and one command after `--`; not both")
    if not options.levers and not (options.a and options.b):
        raise UsageError("compare: two programs are --a 'CMD' and --b 'CMD'")
    if options.levers and not options.program:
        raise UsageError("compare: which command? give it after `--`: redline compare --with fused -- train.py")
    if options.paths:
        raise UsageError("compare: give recordings, or programs; not both")
    if options.against or options.save_as:
        raise UsageError("compare: baselines are recordings; programs are timed in turns")
    if format_of(options, FORMATS) == "html" and options.output is None:
        raise UsageError("compare: an HTML report is 2 MB of text; give it a file, such as -o report.html")


def _limited(set_limits: list[DifferenceLimit], report: TrialReport) -> int:
    """Numbers that are not as claimed fail too."""
    from redline.trials.limits import check_trial

    outcomes = [check_trial(limit, report.trial) for limit in set_limits] if report.trial else []
    for outcome in outcomes:
        if outcome.said:
            remark(outcome.said, "WARNING" if outcome.crossed else "SECONDARY")
    are_wrong = report.numbers is not None and not report.numbers.holds
    return EXIT_CROSSED if are_wrong or any(outcome.crossed for outcome in outcomes) else 0
