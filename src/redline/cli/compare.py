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
from redline.cli.compare_programs import FORMATS, add_trial_arguments, run_trial
from redline.cli.output import deliver, for_stdout, point_to, quoted, remark
from redline.cli.show_progress import progress
from redline.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from redline.report.compare.compare_result import CompareResult
    from redline.trials.limits import DifferenceLimit

EXIT_CROSSED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="RECORDING",
        help="BEFORE and AFTER: each a run folder, a trace, a digest, or a folder of them",
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
    from redline.report.language import speaking
    from redline.trials import limits
    from redline.verbs.compare import BASELINES, compare, save_baseline

    refuse_unknown_format("compare", options.output, tuple(FORMATS))
    if options.a or options.b or options.levers or options.numbers or options.numbers_only:
        return run_trial(options)
    folder = options.baselines or BASELINES
    set_limits = [limits.parse(text) for text in options.fail_on or ()]
    spoken = language(options)
    if format_of(options, FORMATS) == "html" and options.output is None:
        raise UsageError("compare: an HTML report is 2 MB of text; give it a file, such as -o report.html")
    if len(options.paths) == 1 and options.save_as and not options.against:
        kept = save_baseline(options.save_as, options.paths, folder, force=options.force)
        if not options.quiet:
            remark(f"kept as {kept}")
        return 0
    before, after = _recordings(options, folder)
    with progress(options) as tell:
        result = compare(before, after, machine=options.machine, options=job_options(options), progress=tell)
    form = format_of(options, FORMATS)
    with speaking(spoken), for_stdout(options.output if form == "text" else form):
        text = result.rendered(form, verbose=options.verbose)
    deliver(text, options.output, force=options.force)
    if options.save_as:
        save_baseline(options.save_as, [after], folder, force=options.force)
    if not options.quiet and form == "text":
        point_to(f"redline diagnose {quoted([after])}")
    return _judged(set_limits, result)


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
