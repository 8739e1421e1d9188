"""`redline calibrate` on the command line."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from redline.cli.arguments import Quiet, Speaking, language, refuse_other_endings, refuse_unknown_format
from redline.cli.options import Verb, flag, value, values
from redline.cli.output import deliver, for_stdout, point_to, quoted, remark, show, speaks_unicode
from redline.cli.show_progress import progress
from redline.errors import UsageError
from redline.progress import silent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from redline.calibration.budget import Budget
    from redline.verbs.calibrate import Calibrated

PROFILE = "machine.json"


def _seconds(text: str) -> float:
    try:
        value = float(text.removesuffix("s"))
    except ValueError:
        value = 0.0
    if not 1 <= value <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 1 to 86400")
    return value


class CalibrateOptions(Quiet, Speaking):
    """Measure what this machine can do, for diagnose and plan, and as a health check."""

    verb = "calibrate"
    usage = "[options] [options of torchrun] | --compare A.json B.json [options]"
    about = """
        Measure what this machine can do, in a few minutes, and write a profile that `redline diagnose --machine` takes.
        With options of torchrun (--nproc-per-node, --nnodes, --rdzv-..., ...) collectives between the started processes
        are measured too, and slow ranks and slow links are named. Needs torch and an otherwise idle machine."""
    example = "redline calibrate --nproc-per-node 8 --fail-if-slow -o machine.json -o machine.html"
    torchrun: tuple[str, ...] = ()
    quick: bool = flag("about half a minute of CPU time: fewer repetitions, shapes and sizes")
    budget: float | None = value(
        "SECONDS",
        "wall-time limit; the most important measurements run first (default: 300; with --quick 90)",
        read=_seconds,
    )
    only: str | None = value(
        "FAMILIES", "which measurements: compute,memory,overhead,roofline,collectives (default: all)"
    )
    fail_if_slow: bool = flag("exit with 1 if a rank or a link is slow, or a result is wrong")
    show: bool = flag("show on a few numbers what each collective does; measure nothing")
    compare: tuple[str, ...] = value(
        "PROFILE", "compare two profiles figure by figure; measure nothing", default=(), nargs=2
    )
    output: tuple[str, ...] = values(
        "FILE", f"the profile (.json; default: {PROFILE}), the page (.html) or the text (.txt); may be repeated", "-o"
    )
    json: bool = flag("print JSON instead of text")
    force: bool = flag("replace files even if they are not Redline reports")

    @classmethod
    def split(cls, words: list[str]) -> tuple[list[str], dict[str, Any]]:
        """Options of torchrun are handed on to it."""
        from redline.capture.supervisor.command import split_options

        ours, torchrun = split_options(words)
        return ours, {"torchrun": tuple(torchrun)}


def run(options: CalibrateOptions) -> int:
    spoken = language(options)
    if options.compare:
        return _compare(options, spoken)
    if options.show:
        return _show(options, spoken)
    return _calibrate(options, spoken)


# --- measuring --------------------------------------------------------------------------------------------------------


def _calibrate(options: CalibrateOptions, spoken: str) -> int:
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


def _measured(options: CalibrateOptions, output: str, budget: Budget) -> Calibrated | None:
    """Written before anything else can be asked for: whoever interrupts now still has it."""
    from redline.verbs.calibrate import calibrate

    with progress(options, in_background=False) as tell_share:
        calibrated = calibrate(
            quick=options.quick,
            only=None if options.only is None else [part.strip() for part in options.only.split(",") if part.strip()],
            torchrun=options.torchrun,
            tell=_tell_lines(options.quiet, once=tell_share is not silent),
            progress=tell_share,
            budget=budget,
        )
    if calibrated is not None:
        calibrated.save(output, made_by="redline calibrate", force=options.force)
    return calibrated


def _refuse_early(output: str, profiles: Sequence[str], options: CalibrateOptions) -> None:
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


def _print(calibrated: Calibrated, output: str, options: CalibrateOptions, spoken: str) -> None:
    from redline.storage import path_of

    if options.json:
        show(path_of(output).read_text(encoding="utf-8"))
    else:
        with for_stdout():
            show(_text(calibrated, spoken, unicode=speaks_unicode()))


def _text(calibrated: Calibrated, spoken: str, *, unicode: bool) -> str:
    from redline.report.calibrate.calibration_report import document_of
    from redline.report.language import speaking
    from redline.report.terminal import text_of

    with speaking(spoken):
        return text_of(document_of(calibrated.calibration, calibrated.machine), unicode=unicode)


def _page(calibrated: Calibrated, spoken: str) -> str:
    from redline.report.calibrate.calibration_report import page_of
    from redline.report.html.frame import page_text
    from redline.report.language import speaking

    with speaking(spoken):
        return page_text(page_of(calibrated.calibration, calibrated.machine))


def _point_onwards(output: str, options: CalibrateOptions) -> None:
    for name in options.output:
        if name.endswith(".html"):
            point_to(f"open {quoted([name])} in a browser")
    point_to(f"redline diagnose TRACE --machine {quoted([output])}")


# --- without measuring ------------------------------------------------------------------------------------------------


def _compare(options: CalibrateOptions, spoken: str) -> int:
    from redline.report.calibrate.profile_comparison import ProfileComparison
    from redline.report.language import speaking
    from redline.verbs.calibrate import compare, load_calibrated

    _refuse("--compare measures nothing", options, ("quick", "budget", "only", "show", "fail_if_slow", "torchrun"))
    if len(options.output) > 1:
        raise UsageError("calibrate: --compare writes one file; give -o once")
    output = options.output[0] if options.output else None
    refuse_unknown_format("calibrate --compare", output)
    first, second = map(load_calibrated, options.compare)
    synthetic = first.machine.synthetic or second.machine.synthetic
    result = ProfileComparison(comparison=compare(first, second), synthetic=synthetic)
    form = "json" if options.json or str(output or "").endswith(".json") else "text"
    with speaking(spoken), for_stdout(output):
        text = result.rendered(form, unicode=output is not None or speaks_unicode())
    deliver(text, output, force=options.force)
    return 0


def _show(options: CalibrateOptions, spoken: str) -> int:
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


def _refuse(why: str, options: CalibrateOptions, names: Sequence[str]) -> None:
    for name in names:
        if getattr(options, name):
            given = "the options of torchrun" if name == "torchrun" else f"--{name.replace('_', '-')}"
            raise UsageError(f"calibrate: {why}, so it does not go with {given}")


VERB = Verb(CalibrateOptions, run)
