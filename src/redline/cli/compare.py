"""`redline compare` on the command line: recordings, programs in turns, profiles of machines, trials that were kept."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from redline.cli.arguments import (
    FORMATS,
    Redacting,
    Report,
    deliver_report,
    formats,
    job_options,
    language,
    refuse_unknown_format,
    refuse_unprintable_page,
)
from redline.cli.options import Options, Verb, flag, value, values, words
from redline.cli.output import code_of_read, point_to, quoted, remark, speaks_unicode
from redline.cli.show_progress import progress
from redline.cli.values import positive
from redline.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from redline.report.compare.compare_result import CompareResult
    from redline.report.redaction.redactor import Redactor
    from redline.report.trial.trial_report import TrialReport
    from redline.trials.limits import LimitOutcome
    from redline.trials.trial_pairs import TrialOptions

EXIT_CROSSED = 1
_DEFAULT_MINUTES = 30
_OF_RECORDINGS = ("against", "save_as", "machine", "fail_on", "redact")


class Programs(Options):
    """Programs, timed in turns"""

    a: str | None = value("CMD", "the program before the change, as one word: --a 'python train.py'")
    b: str | None = value("CMD", "the program after it")
    levers: tuple[str, ...] = values(
        "LEVER",
        "try this change on the command after `--`, such as fused or workers=4 (docs/reference/levers.md), or "
        "all of a tuned.toml of `redline tune`",
        "--with",
    )
    pairs: int | None = value("N", "pairs at most (default: 60)", read=positive)
    steps: int | None = value("N", "steps of each process, where processes are timed (default: 30)", read=positive)
    max_time: int = value(
        "MINUTES", f"time at most (default: {_DEFAULT_MINUTES})", default=_DEFAULT_MINUTES, read=positive
    )
    allow_writes: bool = flag("allow the programs to modify your files, each time that they run")
    numbers: bool = flag("also check that the numbers are still right")
    numbers_only: bool = flag("check the numbers, and time nothing")
    claims: str | None = value(
        "CLASS",
        "what the change may do to the numbers: bitwise, reassociation (the same sums in another order) or "
        "'lower precision' (default: as the lever says, at least reassociation)",
        choices=("bitwise", "reassociation", "lower precision"),
    )
    seed: int | None = value("N", "seed for the A/B order (default: any)", read=positive)


class Recordings(Options):
    """Recordings"""

    against: str | None = value("NAME", "compare with the baseline NAME; then give AFTER alone")
    save_as: str | None = value("NAME", "keep AFTER as the baseline NAME, at most 32 KB per rank")
    baselines: str | None = value("FOLDER", "where baselines are kept (default: redline-baselines)")
    machine: str | None = value(
        "NAME|FILE", "peaks to use: a record of `redline hardware`, or a profile (default: by the device's name)"
    )
    strict: bool = flag("fail on damaged traces instead of repairing them")
    jobs: int | None = value("N", "reader processes (default: one per core)", read=positive)
    no_cache: bool = flag("read the traces again, even if nothing changed")


class CompareOptions(Recordings, Programs, Report, Redacting):
    """Say whether a change helped: two recordings, two programs in turns, or a lever."""

    verb = "compare"
    usage = "[options] RECORDING ... | --a CMD --b CMD | --with LEVER -- COMMAND"
    example = "redline compare --with fused -- train.py --its-own args"
    paths: tuple[str, ...] = words(
        "RECORDING",
        "BEFORE and AFTER: each a run folder, a trace, a digest, a plan (its .json.gz), or a folder of them; or "
        "two profiles of `redline calibrate`; or a trial that was kept, or the folder of `redline tune`",
        nargs="*",
    )
    program: tuple[str, ...] = ()
    format: str | None = formats("text", "html", "md for a pull request", "json", "csv for the accounts")
    fail_on: tuple[str, ...] = values(
        "LIMIT", "exit with 1 if this is met, such as 'slower>3%' or 'host>5%' (an account grew by so much of the step)"
    )
    verbose: bool = flag("all operators, collectives and ranks", "-v", either="loudness")

    @classmethod
    def split(cls, words: list[str]) -> tuple[list[str], dict[str, Any]]:
        """What follows `--` is a program with options of its own, where a lever is tried on one."""
        at = words.index("--") if "--" in words else len(words)
        return words[:at], {"program": tuple(words[at + 1 :])}


def run(options: CompareOptions) -> int:
    refuse_unknown_format("compare", options.output, tuple(FORMATS))
    if not options.levers:  # then what follows `--` are recordings too
        options = replace(options, paths=(*options.paths, *options.program), program=())
    if options.a or options.b or options.levers or options.numbers or options.numbers_only:
        return _run_trial(options)
    if not options.redact:
        return _run(options, None)
    from redline.report.redaction.redactor import Redactor

    redactor = Redactor()
    with redactor.in_errors(lambda: [*options.paths, *filter(None, (options.output, options.baselines))]):
        return _run(options, redactor)


# --- recordings -------------------------------------------------------------------------------------------------------


def _run(options: CompareOptions, redactor: Redactor | None) -> int:
    from redline.trials import limits
    from redline.verbs.compare import BASELINES, save_baseline
    from redline.verbs.compare_programs import trial_files
    from redline.verbs.recording_kind import is_profile

    set_limits = [limits.parse(text) for text in options.fail_on]
    refuse_unprintable_page(options)
    if len(options.paths) == 2 and all(map(is_profile, options.paths)):
        return _run_profiles(options)
    if len(options.paths) == 1 and (trials := trial_files(options.paths[0])):
        return _run_kept(options, trials)
    folder = options.baselines or BASELINES
    if len(options.paths) == 1 and options.save_as and not options.against:
        kept = save_baseline(options.save_as, options.paths, folder, force=options.force, redactor=redactor)
        if not options.quiet:
            remark(f"kept as {kept}")
        return 0
    before, after = _recordings(options, folder)
    result = _compared(before, after, options, redactor)
    if options.save_as:
        save_baseline(options.save_as, [after], folder, force=options.force, redactor=redactor)
    if not options.quiet and redactor is None and options.form == "text":
        point_to(f"redline diagnose {quoted([after])}")
    judged = EXIT_CROSSED if _crossed(limits.check(limit, result.difference) for limit in set_limits) else 0
    return max(judged, *(code_of_read(len(side.diagnosis.ranks), side.failures) for side in result.sides))


def _compared(before: str, after: str, options: CompareOptions, redactor: Redactor | None) -> CompareResult:
    from redline.report.redaction.redactor import redacted_text
    from redline.verbs.compare import compare

    language(options)
    with progress(options) as tell:
        result = compare(before, after, machine=options.machine, options=job_options(options), progress=tell)
    if redactor is not None:
        result = result.redacted(redactor)
    deliver_report(options, lambda form: result.rendered(form, verbose=options.verbose))
    if result.removed is not None and not options.quiet and (options.form not in ("text", "md") or options.output):
        remark(redacted_text(result.removed))
    return result


def _recordings(options: CompareOptions, folder: str) -> tuple[str, str]:
    from redline.verbs.compare import baseline

    if options.against is not None:
        if len(options.paths) != 1:
            raise UsageError("compare: with --against give one recording, which is held against the baseline")
        return str(baseline(options.against, folder)), options.paths[0]
    if len(options.paths) != 2:
        raise UsageError(
            "compare: give two recordings, BEFORE and AFTER (quote patterns that name several files), or programs: "
            "--a 'CMD' --b 'CMD', or --with LEVER -- CMD"
        )
    return options.paths[0], options.paths[1]


def _crossed(outcomes: Iterable[LimitOutcome]) -> bool:
    """Whether a limit is; each that is crossed is said, and each of which only a part of the interval is."""
    crossed = False
    for outcome in outcomes:
        if outcome.said:
            remark(outcome.said, "WARNING" if outcome.crossed else "SECONDARY")
        crossed |= outcome.crossed
    return crossed


# --- profiles and kept trials -----------------------------------------------------------------------------------------


def _run_profiles(options: CompareOptions) -> int:
    from redline.report.calibrate.profile_comparison import ProfileComparison
    from redline.verbs.calibrate import compare, load_calibrated

    for name in _OF_RECORDINGS:
        if getattr(options, name):
            raise UsageError(f"compare: --{name.replace('_', '-')} is for recordings; two profiles were given")
    first, second = map(load_calibrated, options.paths)
    result = ProfileComparison(
        comparison=compare(first, second),
        synthetic=first.machine.synthetic or second.machine.synthetic,
        made_by="redline compare",
    )
    unicode = options.output is not None or speaks_unicode()
    deliver_report(options, lambda form: result.rendered(form, unicode=unicode))
    return 0


def _run_kept(options: CompareOptions, files: Sequence[Path]) -> int:
    """One trial is shown again, those of a search are listed."""
    from redline.report.trial.sentences import headline
    from redline.verbs.compare_programs import kept_trial

    reports = [kept_trial(file) for file in files]
    if len(reports) > 1 and options.form != "text":
        raise UsageError(f"compare: {options.form} is of one trial; give one file of those in {files[0].parent}")

    def render(form: str) -> str:
        if len(reports) == 1:
            if not (reports[0].trial or reports[0].numbers):
                raise UsageError(f"compare: {files[0]} has neither times nor numbers to be shown; give another trial")
            return reports[0].rendered(form)
        lines = (
            f"{file.name}: {headline(report.trial, report.numbers)}" if report.trial or report.numbers else file.name
            for file, report in zip(files, reports, strict=True)
        )
        return "\n".join([*lines, ""])

    deliver_report(options, render)
    return 0


# --- programs ---------------------------------------------------------------------------------------------------------


@contextmanager
def jobs_end_with_us() -> Iterator[None]:
    """SIGTERM, as schedulers and `timeout` send it, ends what was started too."""
    import signal

    def leave(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    former = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def _run_trial(options: CompareOptions) -> int:
    from redline.trials import limits

    _refuse_mixtures(options)
    set_limits = [limits.parse(text) for text in options.fail_on]
    for limit in set_limits:
        limits.refuse_account(limit)
    with jobs_end_with_us():
        report = _report(options)
    deliver_report(options, report.rendered)
    trial, numbers = report.trial, report.numbers
    is_crossed = trial is not None and _crossed(limits.check_trial(limit, trial) for limit in set_limits)
    are_wrong = numbers is not None and not numbers.holds  # numbers that are not as claimed fail too
    return EXIT_CROSSED if are_wrong or is_crossed else 0


def _report(options: CompareOptions) -> TrialReport:
    """The numbers first, where they are asked for: never while time is measured."""
    from pathlib import Path

    from redline.report.trial.trial_report import TrialReport
    from redline.tuning.tuned_file import levers_of
    from redline.verbs.compare_programs import compare_kept_numbers, compare_numbers, compare_programs

    if options.paths:
        kept, other = map(Path, options.paths)
        return compare_kept_numbers(kept, other, claims=options.claims)
    before, levers = options.a or options.program, levers_of(options.levers)
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


def _trial_options(options: CompareOptions) -> TrialOptions:
    from redline.trials.trial_pairs import TrialOptions

    given = {"pairs": options.pairs, "steps": options.steps, "seed": options.seed}
    known: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return TrialOptions(max_time_s=60.0 * options.max_time, allow_writes=options.allow_writes, **known)


def _refuse_mixtures(options: CompareOptions) -> None:
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
    refuse_unprintable_page(options)


VERB = Verb(CompareOptions, run)
