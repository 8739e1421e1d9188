"""`redline calibrate` on the command line."""

from __future__ import annotations

import argparse
import sys

from redline.cli.arguments import add_language, language, refuse_other_endings, refuse_unknown_format
from redline.cli.output import deliver, for_stdout, point_to, quoted, remark, show, speaks_unicode
from redline.cli.show_progress import progress
from redline.errors import UsageError
from redline.progress import silent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from redline.probes.budget import Budget
    from redline.verbs.calibrate import Calibrated

USAGE = "redline calibrate [options] [options of torchrun]\n       redline calibrate --compare A.json B.json [options]"
DESCRIPTION = """\
Measure what this machine can do, in a few minutes, and write a profile that `redline diagnose --machine` takes. With
options of torchrun (--nproc-per-node, --nnodes, --rdzv-..., ...) collectives between the started processes are
measured too, and slow ranks and slow links are named. Needs torch and an otherwise idle machine.
"""
PROFILE = "machine.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = USAGE
    parser.description = DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        action="append",
        default=[],
        help=f"the profile (.json; default: {PROFILE}), the page (.html) or the text (.txt); may be repeated",
    )
    parser.add_argument("--force", action="store_true", help="replace files even if they are not Redline reports")
    parser.add_argument(
        "--quick", action="store_true", help="about half a minute of CPU time: fewer repetitions, shapes and sizes"
    )
    parser.add_argument(
        "--budget",
        type=_seconds,
        metavar="SECONDS",
        help="wall-time limit; the most important measurements run first (default: 300; with --quick 90)",
    )
    parser.add_argument(
        "--only",
        metavar="FAMILIES",
        help="which measurements: compute,memory,overhead,roofline,collectives (default: all)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument(
        "--fail-if-slow", action="store_true", help="exit with 1 if a rank or a link is slow, or a result is wrong"
    )
    parser.add_argument(
        "--show", action="store_true", help="show on a few numbers what each collective does; measure nothing"
    )
    parser.add_argument(
        "--compare", nargs=2, metavar="PROFILE", help="compare two profiles figure by figure; measure nothing"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress and no remarks")
    add_language(parser)


def parse(parser: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    """Options of torchrun are handed on to it."""
    from redline.launch.outside.command import split_options

    ours, torchrun = split_options(words)
    return parser.parse_args(ours, argparse.Namespace(torchrun=torchrun))


def run(options: argparse.Namespace) -> int:
    spoken = language(options)
    if options.compare:
        return _compare(options, spoken)
    if options.show:
        return _show(options, spoken)
    return _calibrate(options, spoken)


# --- measuring --------------------------------------------------------------------------------------------------------


def _calibrate(options: argparse.Namespace, spoken: str) -> int:
    from redline.verbs.calibrate import budget_of

    profiles = [name for name in options.output if name.endswith(".json")]
    output = profiles[0] if profiles else PROFILE
    _refuse_early(output, profiles, options)
    if options.fail_if_slow and not options.torchrun:
        raise UsageError("calibrate: --fail-if-slow needs processes; say how many, such as --nproc-per-node 8")
    budget = budget_of(options.budget, quick=options.quick)
    with budget.interruptible():
        result = _measured(options, output, budget)
    if result is None:
        if not options.quiet:
            remark("redline: this machine took part; the first machine has the results")
        return 0
    if budget.stopped_by:
        from redline.cli import EXIT_INTERRUPTED

        remark(f"redline: interrupted; {output} has what was measured until then, marked as partial")
        return EXIT_INTERRUPTED
    _print(result, output, options, spoken)
    for name in options.output:
        if name != output:
            page = name.endswith(".html")
            deliver(_page(result, spoken) if page else _text(result, spoken, unicode=True), name, force=options.force)
    if not options.quiet:
        _point_onwards(output, options)
    return 1 if options.fail_if_slow and not result.is_healthy else 0


def _measured(options: argparse.Namespace, output: str, budget: Budget) -> Calibrated | None:
    """Written before anything else can be asked for: whoever interrupts now still has it."""
    from redline.verbs.calibrate import calibrate

    with progress(options, in_background=False) as tell_share:
        calibrated = calibrate(
            quick=options.quick,
            only=_families(options),
            torchrun=options.torchrun,
            tell=_tell_lines(options.quiet, once=tell_share is not silent),
            progress=tell_share,
            budget=budget,
        )
    if calibrated is not None:
        calibrated.save(output, made_by="redline calibrate", force=options.force)
    return calibrated


def _seconds(text: str) -> float:
    try:
        value = float(text.removesuffix("s"))
    except ValueError:
        value = 0.0
    if not 1 <= value <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 1 to 86400")
    return value


def _families(options: argparse.Namespace) -> list[str] | None:
    return None if options.only is None else [part.strip() for part in options.only.split(",") if part.strip()]


def _refuse_early(output: str, profiles: Sequence[str], options: argparse.Namespace) -> None:
    """What would fail after minutes of measuring fails before."""
    from redline.artifacts import refuse_unless_writable
    from redline.storage import path_of

    if len(profiles) > 1:
        raise UsageError(f"calibrate: there is one profile; give one of {' and '.join(profiles)}")
    refuse_other_endings("calibrate", options.output, (".json", ".html", ".txt"))
    for name in dict.fromkeys((output, *options.output)):
        refuse_unless_writable(path_of(name), force=options.force)


def _tell_lines(quiet: bool, *, once: bool) -> Callable[[str], None]:
    """Lines for a log; only the first, which says what the machine is busy with, where a bar shows the rest."""
    told: list[str] = []

    def tell(text: str) -> None:
        if not quiet and sys.stderr is not None and not (once and told):
            print(f"redline: {text}", file=sys.stderr, flush=True)
        told.append(text)

    return tell


def _print(calibrated: Calibrated, output: str, options: argparse.Namespace, spoken: str) -> None:
    from redline.storage import path_of

    if options.json:
        show(path_of(output).read_text(encoding="utf-8"))
    else:
        with for_stdout():
            show(_text(calibrated, spoken, unicode=speaks_unicode()))


def _text(calibrated: Calibrated, spoken: str, *, unicode: bool) -> str:
    from redline.report.calibrate import text as calibrate_text
    from redline.report.language import speaking

    with speaking(spoken):
        return calibrate_text.render(calibrated.calibration, calibrated.machine, unicode=unicode)


def _page(calibrated: Calibrated, spoken: str) -> str:
    from redline.report.html.calibrate import page as calibrate_page
    from redline.report.language import speaking

    with speaking(spoken):
        return calibrate_page.render(calibrated.calibration, calibrated.machine)


def _point_onwards(output: str, options: argparse.Namespace) -> None:
    for name in options.output:
        if name.endswith(".html"):
            point_to(f"open {quoted([name])} in a browser")
    point_to(f"redline diagnose TRACE --machine {quoted([output])}")


# --- without measuring ------------------------------------------------------------------------------------------------


def _compare(options: argparse.Namespace, spoken: str) -> int:
    from redline.report.calibrate import compare_json as calibrate_compare_json
    from redline.report.calibrate import compare_text as calibrate_compare_text
    from redline.report.language import speaking
    from redline.verbs.calibrate import compare, load_calibrated

    _refuse("--compare measures nothing", options, ("quick", "budget", "only", "show", "fail_if_slow", "torchrun"))
    if len(options.output) > 1:
        raise UsageError("calibrate: --compare writes one file; give -o once")
    output = options.output[0] if options.output else None
    refuse_unknown_format("calibrate --compare", output)
    first, second = map(load_calibrated, options.compare)
    comparison = compare(first, second)
    if options.json or str(output or "").endswith(".json"):
        text = calibrate_compare_json.render(comparison, synthetic=first.machine.synthetic or second.machine.synthetic)
    else:
        with speaking(spoken), for_stdout(output):
            unicode = output is not None or speaks_unicode()
            text = calibrate_compare_text.render(comparison, unicode=unicode)
    deliver(text, output, force=options.force)
    return 0


def _show(options: argparse.Namespace, spoken: str) -> int:
    _refuse("--show measures nothing", options, ("quick", "budget", "only", "fail_if_slow", "json", "output"))
    if not options.torchrun:
        raise UsageError("calibrate: --show needs processes; say how many, such as --show --nproc-per-node 4")
    from redline.report.calibrate import collectives_shown_text
    from redline.report.language import speaking
    from redline.verbs.calibrate import show_collectives

    operation_examples = show_collectives(options.torchrun)
    if operation_examples is not None:
        with speaking(spoken), for_stdout():
            show(collectives_shown_text.render(operation_examples))
    return 0


def _refuse(why: str, options: argparse.Namespace, names: Sequence[str]) -> None:
    for name in names:
        if getattr(options, name):
            given = "the options of torchrun" if name == "torchrun" else f"--{name.replace('_', '-')}"
            raise UsageError(f"calibrate: {why}, so it does not go with {given}")
