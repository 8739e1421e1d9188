"""`redline run` on the command line."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from redline.cli.arguments import add_language, language, positive, size_bytes
from redline.cli.output import harmless, quoted, speaks_unicode
from redline.errors import UsageError
from redline.launch.settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from redline.launch.outside.command import Command
    from redline.launch.outside.source_digests import DigestPlan
    from redline.launch.outside.stall import Stall
    from redline.verbs.run import Ran

USAGE = "redline run [options] [options of torchrun] [--] train.py | -m module | command  [its own arguments]"
DESCRIPTION = """\
Start a job unchanged, watch its steps, capture a few of them on every rank, and leave a folder for `redline diagnose`.
Without options of torchrun (--nproc-per-node, --nnodes, --rdzv-..., --max-restarts, ...) the job is started as `python`
would start it, also inside srun, mpirun or an outer torchrun, one `redline run` per rank. A command may be `python -u
train.py`, `torchrun ... train.py` or `accelerate launch ... train.py`, as it is typed without Redline. Ranks that the
script starts by itself (torch.multiprocessing.spawn, Lightning, Ray Train, ...) are watched too. Exit code, signals and
output are the job's own.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = USAGE
    parser.description = DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", help="folder of the run (default: a new one in redline-runs)"
    )
    parser.add_argument(
        "--with",
        action="append",
        dest="levers",
        metavar="LEVER",
        help="run the job with this change, such as fused, or with all of a tuned.toml of `redline tune`",
    )
    _add_windows(parser.add_argument_group("what to capture"))
    _add_limits(parser.add_argument_group("limits"))
    _add_digests(parser.add_argument_group("digests at the source"))
    _add_afterwards(parser.add_argument_group("after the run"))


def _add_windows(window: argparse._ArgumentGroup) -> None:
    window.add_argument(
        "--steps", type=positive, default=Settings.steps, metavar="N", help="steps in a window (default: 3)"
    )
    window.add_argument(
        "--after",
        type=_count,
        default=Settings.after,
        metavar="N",
        help="steps to skip before the first window (default: 8)",
    )
    window.add_argument(
        "--every", type=positive, default=Settings.every, metavar="N", help="another window every N steps"
    )
    window.add_argument(
        "--when",
        type=_condition,
        metavar="IF",
        help="open a window when this is true: 'step_time>1.5*median', or of a server 'running>8'",
    )
    window.add_argument(
        "--timed-after",
        type=_seconds,
        default=Settings.timed_after_s,
        metavar="SECONDS",
        help="without a recognised step: capture a second as it comes (default: 30; 0 for never)",
    )
    window.add_argument("--watch-only", action="store_true", help="count and time steps, capture none")
    window.add_argument(
        "--capture-signal",
        type=_signal,
        metavar="NAME",
        help="open a window when `redline run` gets this signal, such as USR2 (a file FOLDER/capture does the same)",
    )
    window.add_argument(
        "--stacks", action="store_true", help="record Python stacks; they make steps up to several times longer"
    )
    window.add_argument(
        "--numbers",
        metavar="FOLDER",
        help="record the numbers of 4 steps to FOLDER instead, to check another run against: redline compare",
    )
    window.add_argument(
        "--memory", action="store_true", help="record every allocation, with Python stacks: see `redline memory`"
    )
    window.add_argument("--no-shapes", action="store_true", help="do not record shapes (then FLOPs are unknown)")


def _add_limits(limits: argparse._ArgumentGroup) -> None:
    limits.add_argument(
        "--budget",
        type=_share,
        default=Settings.budget,
        metavar="SHARE",
        help="share of the run's time for windows after the first (default: 1%%)",
    )
    limits.add_argument(
        "--keep", type=positive, default=Settings.keep, metavar="N", help="newest windows to keep (default: 16)"
    )
    limits.add_argument(
        "--max-disk",
        type=size_bytes,
        default=Settings.disk_bytes,
        metavar="SIZE",
        help="size limit of the folder (default: 2 GiB)",
    )
    limits.add_argument(
        "--max-memory",
        type=size_bytes,
        default=Settings.memory_bytes,
        metavar="SIZE",
        help="memory that a window may add to a process before it is closed early (default: 256 MiB)",
    )
    limits.add_argument(
        "--no-fork", action="store_true", help="write traces in the job's processes, which pause meanwhile"
    )
    limits.add_argument(
        "--stall-after",
        type=_seconds,
        default=300.0,
        metavar="SECONDS",
        help="after this long without a step, show where each rank is (default: 300; 0 for never)",
    )


def _add_digests(digests: argparse._ArgumentGroup) -> None:
    digests.add_argument(
        "--digests",
        action="store_true",
        help="digest each window where its ranks ran, at idle priority, to FOLDER/digests",
    )
    digests.add_argument(
        "--keep-traces",
        type=_count,
        metavar="N",
        help="with --digests: delete digested traces but those of the newest N windows and of ranks that stand out",
    )
    digests.add_argument(
        "--digest-wait",
        type=_seconds,
        default=30.0,
        metavar="SECONDS",
        help="time for the last digests when the job is over (default: 30)",
    )


def _add_afterwards(after: argparse._ArgumentGroup) -> None:
    after.add_argument("--diagnose", action="store_true", help="diagnose at once, on stderr")
    after.add_argument("--report", action="store_true", help="write report.html into FOLDER")
    after.add_argument("-q", "--quiet", action="store_true", help="no output of its own")
    add_language(after)


def parse(parser: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    """Our options alone: torchrun has its own, and what follows is another program."""
    from redline.launch.outside.command import split

    ours, torchrun, job = split(words)
    options = parser.parse_args(ours, argparse.Namespace(torchrun=torchrun, job=job))
    if options.watch_only and (options.when or options.every or options.diagnose or options.report or options.digests):
        raise UsageError("run: --watch-only captures nothing, so there is nothing to time, digest, diagnose or report")
    if options.keep_traces is not None and not options.digests:
        raise UsageError("run: --keep-traces deletes traces that were digested; add --digests")
    return options


def _record_numbers(options: argparse.Namespace, job: Command) -> int:
    """A few steps of the job by value, instead of watching it."""
    from redline.launch.outside.trial_command import TrialCommand
    from redline.numerics import Numerics
    from redline.storage import path_of_this_machine
    from redline.trials.numbers.kept_runs import record_numbers

    typed = TrialCommand(words=tuple(options.job), python=job)
    folder = path_of_this_machine(options.numbers, "run: the folder of --numbers")
    known = record_numbers(typed, folder, floors=[Numerics.REASSOCIATION])
    if not options.quiet:
        _say(f"the numbers of {known.steps} steps are in {options.numbers}\n")
        _say(f"next: redline compare --numbers-only {quoted([options.numbers])} OTHER\n")
    return 0


def run(options: argparse.Namespace) -> int:
    from redline.launch.outside.command import command
    from redline.launch.outside.command_line import understood
    from redline.launch.outside.supervise import die_like, forget_pending, interruptible, signals_held
    from redline.verbs.run import Watching
    from redline.verbs.run import run as run_job

    spoken = language(options)
    typed = understood(options.torchrun, options.job)
    job = command(typed.torchrun, typed.job, typed.of_python)
    if options.numbers:
        return _record_numbers(options, job)
    if job.blind and not options.quiet:
        _say(f"redline: python {job.blind} starts without what Redline watches through; the job runs unwatched\n")

    def tell_afterwards() -> None:
        with interruptible():
            _afterwards(ran, options, spoken)

    with signals_held() as mask:
        watching = Watching(
            stall_after_s=options.stall_after,
            capture_signal=options.capture_signal,
            mask=mask,
            digests=_digest_plan(options),
            stalled=lambda stall, path: (
                None if options.quiet else _unharmed(partial(_tell_of_stall, stall, path, spoken))
            ),
        )
        ran = run_job(job, _settings(options), options.output, watching)
        if ran.speaks and not job.blind:
            _unharmed(tell_afterwards)
        code = die_like(ran.ended)
        forget_pending()
    return code


def _unharmed(tell: Callable[[], None]) -> None:
    """Tell it; whatever fails in that, the job goes on or ends as it would have."""
    from redline.artifacts.masking import masked
    from redline.errors import RedlineError
    from redline.report.option_names import as_options

    try:
        tell()
    except KeyboardInterrupt:
        _say("redline: interrupted\n")
    except RedlineError as error:
        _say(f"redline: {masked(as_options(str(error)))}\n")
    except Exception as error:  # noqa: BLE001 (the job must not hear of it)
        _say(f"redline: a bug in Redline, please report it: {type(error).__name__}: {masked(str(error))}\n")


def _say(text: str) -> None:
    """On stderr, if it is there and somebody reads it; never on stdout, which is the job's."""
    from contextlib import suppress

    with suppress(OSError, ValueError):
        if sys.stderr is not None:
            print(harmless(text, sys.stderr), end="", file=sys.stderr, flush=True)


def _for_stderr() -> AbstractContextManager[None]:
    """As wide and colourful as stderr is: what is said of a job does not go to its stdout."""
    from redline.report.display import display_of, displaying

    return displaying(display_of(sys.stderr))


def _settings(options: argparse.Namespace) -> Settings:
    from redline.tuning.tuned_file import levers_of

    return Settings(
        {
            "kept_levers": levers_of(options.levers or ()),
            "capture": not options.watch_only,
            "after": options.after,
            "timed_after_s": options.timed_after,
            "steps": options.steps,
            "every": options.every,
            "when": options.when or "",
            "budget": options.budget,
            "keep": options.keep,
            "disk_bytes": options.max_disk,
            "memory_bytes": options.max_memory,
            "shapes": not options.no_shapes,
            "stacks": options.stacks or options.memory,  # without them nobody knows what an allocation is for
            "memory": options.memory,
            "fork": not options.no_fork,
        }
    )


def _digest_plan(options: argparse.Namespace) -> DigestPlan | None:
    from redline.launch.outside.source_digests import DigestPlan

    if not options.digests:
        return None
    return DigestPlan(keep_traces=options.keep_traces, wait_s=options.digest_wait, most_bytes=options.max_disk)


def _tell_of_stall(stall: Stall, path: Path | None, spoken: str) -> None:
    from redline.report.language import speaking
    from redline.report.run import text as run_text

    with speaking(spoken), _for_stderr():
        _say(run_text.render_stall(stall, path))


def _afterwards(ran: Ran, options: argparse.Namespace, spoken: str) -> None:
    """The summary, and what was asked for."""
    if not options.quiet:
        from redline.report.language import speaking
        from redline.report.run import text as run_text

        with speaking(spoken), _for_stderr():
            _say(run_text.render(ran.record, ran.folder))
    if ran.folder is None or not ran.record.is_diagnosable:
        return
    if options.report or options.diagnose:
        _diagnose(ran.folder, options, spoken)
    if not options.quiet and not options.report:
        verb = "memory" if options.memory else "diagnose"
        wanted = " -o report.html" if options.diagnose and not options.memory else ""
        _say(f"next: redline {verb} {quoted([_near(ran.folder)])}{wanted}\n")


def _near(folder: Path) -> str:
    from pathlib import Path

    try:
        return str(folder.relative_to(Path.cwd()))
    except (ValueError, OSError):  # it is elsewhere, or the folder that we are in is gone
        return str(folder)


def _diagnose(folder: Path, options: argparse.Namespace, spoken: str) -> None:
    from redline.cli.output import deliver
    from redline.report.language import speaking
    from redline.verbs.diagnose import diagnose

    diagnose_result = diagnose(folder, draw_step=options.report)
    with speaking(spoken):
        if options.diagnose:
            unicode = speaks_unicode(sys.stderr)
            with _for_stderr():
                _say("\n" + diagnose_result.rendered("text", unicode=unicode))
        if options.report:
            deliver(diagnose_result.rendered("html"), str(folder / "report.html"), force=True)
            if not options.quiet:
                _say(f"next: open {quoted([_near(folder / 'report.html')])} in a browser\n")


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 0 or more")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def _share(text: str) -> float:
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share, such as 1% or 0.01")
    return value


def _condition(text: str) -> str:
    from redline.launch.inside.recording.condition import check_condition

    try:
        check_condition(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _signal(text: str) -> int:
    import signal

    try:
        return signal.Signals["SIG" + text.upper().removeprefix("SIG")].value
    except KeyError:
        raise argparse.ArgumentTypeError(f"{text!r} is no signal; USR1 and USR2 are") from None
