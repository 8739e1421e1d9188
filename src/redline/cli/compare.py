"""`redline compare` on the command line."""

from __future__ import annotations

from redline.cli.arguments import (
    add_language,
    add_machine,
    add_output,
    format_of,
    job_options,
    language,
    positive,
    refuse_unknown_format,
)
from redline.cli.compare_kept import kept_in, run_kept
from redline.cli.compare_profiles import are_profiles, run_profiles
from redline.cli.compare_programs import FORMATS, add_trial_arguments, run_trial
from redline.cli.output import deliver, for_stdout, point_to, quoted, remark
from redline.cli.redacting import add_redact
from redline.cli.show_progress import progress
from redline.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from redline.report.compare.compare_result import CompareResult
    from redline.report.redaction.redactor import Redactor
    from redline.trials.limits import DifferenceLimit

EXIT_CROSSED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="RECORDING",
        help="BEFORE and AFTER: each a run folder, a trace, a digest, a plan (its .json.gz), or a folder of them; or "
        "two profiles of `redline calibrate`; or a trial that was kept, or the folder of `redline tune`",
    )
    add_trial_arguments(parser)
    parser.add_argument("--against", metavar="NAME", help="compare with the baseline NAME; then give AFTER alone")
    parser.add_argument("--save-as", metavar="NAME", help="keep AFTER as the baseline NAME, at most 32 KB per rank")
    parser.add_argument("--baselines", metavar="FOLDER", help="where baselines are kept (default: redline-baselines)")
    add_machine(parser)
    parser.add_argument("--strict", action="store_true", help="fail on damaged traces instead of repairing them")
    parser.add_argument("--jobs", type=positive, metavar="N", help="reader processes (default: one per core)")
    parser.add_argument("--no-cache", action="store_true", help="read the traces again, even if nothing changed")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")
    form.add_argument(
        "--format",
        choices=sorted(FORMATS.values()),
        metavar="FORMAT",
        help="text, html, md for a pull request, json, or csv for the accounts (default: text)",
    )
    parser.add_argument(
        "--fail-on",
        action="append",
        metavar="LIMIT",
        help="exit with 1 if this is met, such as 'slower>3%%' or 'host>5%%' (an account grew by so much of the step)",
    )
    add_redact(parser)
    add_language(parser)
    add_output(parser, verbose="all operators, collectives and ranks")


def parse(parser: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    """What follows `--` is a program with options of its own, where a lever is tried on one."""
    at = words.index("--") if "--" in words else len(words)
    options = parser.parse_intermixed_args(words[:at])
    options.program = words[at + 1 :]
    if not options.levers:
        options.paths += options.program
        options.program = []
    return options


def run(options: argparse.Namespace) -> int:
    refuse_unknown_format("compare", options.output, tuple(FORMATS))
    if options.a or options.b or options.levers or options.numbers or options.numbers_only:
        return run_trial(options)
    if not options.redact:
        return _run(options, None)
    from redline.report.redaction.redactor import Redactor

    redactor = Redactor()
    with redactor.in_errors(lambda: [*options.paths, *filter(None, (options.output, options.baselines))]):
        return _run(options, redactor)


def _run(options: argparse.Namespace, redactor: Redactor | None) -> int:
    from redline.trials import limits
    from redline.verbs.compare import BASELINES, save_baseline

    set_limits = [limits.parse(text) for text in options.fail_on or ()]
    if format_of(options, FORMATS) == "html" and options.output is None:
        raise UsageError("compare: an HTML report is 2 MB of text; give it a file, such as -o report.html")
    if are_profiles(options.paths):
        return run_profiles(options)
    if trials := kept_in(options.paths):
        return run_kept(options, trials)
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
    if not options.quiet and redactor is None and format_of(options, FORMATS) == "text":
        point_to(f"redline diagnose {quoted([after])}")
    return _judged(set_limits, result)


def _compared(before: str, after: str, options: argparse.Namespace, redactor: Redactor | None) -> CompareResult:
    """Two recordings, compared and shown."""
    from redline.report.language import speaking
    from redline.report.redaction.redaction_notice import redacted_text
    from redline.verbs.compare import compare

    spoken = language(options)
    form = format_of(options, FORMATS)
    with progress(options) as tell:
        result = compare(before, after, machine=options.machine, options=job_options(options), progress=tell)
    if redactor is not None:
        result = result.redacted(redactor)
    with speaking(spoken), for_stdout(options.output if form == "text" else form):
        text = result.rendered(form, verbose=options.verbose)
    deliver(text, options.output, force=options.force)
    if result.removed is not None and not options.quiet and (form not in ("text", "md") or options.output):
        remark(redacted_text(result.removed))
    return result


def _recordings(options: argparse.Namespace, folder: str) -> tuple[str, str]:
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


def _judged(set_limits: list[DifferenceLimit], result: CompareResult) -> int:
    """The exit code by the limits; each that is crossed is said, and each of which only a part of the interval is."""
    from redline.trials.limits import check

    crossed = False
    for limit in set_limits:
        outcome = check(limit, result.difference)
        if outcome.said:
            remark(outcome.said, "WARNING" if outcome.crossed else "SECONDARY")
        crossed |= outcome.crossed
    return EXIT_CROSSED if crossed else 0
