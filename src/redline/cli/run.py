"""`redline run` on the command line."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from redline.capture.settings import Settings
from redline.cli.arguments import Quiet, Speaking, language
from redline.cli.options import Options, Verb, flag, options_of, value, values
from redline.cli.output import harmless, quoted, speaks_unicode
from redline.cli.values import condition, number, positive, share_of_time, signal_number, size_bytes, whole
from redline.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from redline.capture.supervisor.command import Command
    from redline.capture.supervisor.source_digests import DigestPlan
    from redline.capture.supervisor.stall import Stall
    from redline.verbs.run import Ran

_seconds = number("a number of seconds", 0, 999_999_999)


class Windows(Options):
    """What to capture"""

    steps: int = value("N", "steps in a window (default: 3)", default=Settings.steps, read=positive)
    after: int = value("N", "steps to skip before the first window (default: 8)", default=Settings.after, read=whole)
    every: int = value("N", "another window every N steps", default=Settings.every, read=positive)
    when: str = value(
        "IF",
        "open a window when this is true: 'step_time>1.5*median', or of a server 'running>8'",
        default="",
        read=condition,
    )
    timed_after: float = value(
        "SECONDS",
        "if no step is detected for so long, capture one second (default: 30; 0 for never)",
        default=Settings.timed_after_s,
        read=_seconds,
    )
    watch_only: bool = flag("count and time steps, capture none")
    capture_signal: int | None = value(
        "NAME",
        "open a window when `redline run` gets this signal, such as USR2 (a file FOLDER/capture does the same)",
        read=signal_number,
    )
    stacks: bool = flag("record Python stacks; they make steps up to several times longer")
    numbers: str | None = value(
        "FOLDER", "record the numbers of 4 steps to FOLDER instead, to check another run against: redline compare"
    )
    memory: bool = flag("record every allocation, with Python stacks: see `redline memory`")
    no_shapes: bool = flag("do not record shapes (then FLOPs are unknown)")


class Limits(Options):
    """Limits"""

    budget: float = value(
        "SHARE",
        "share of the run's time for windows after the first (default: 1%)",
        default=Settings.budget,
        read=share_of_time,
    )
    keep: int = value("N", "newest windows to keep (default: 16)", default=Settings.keep, read=positive)
    max_disk: int = value(
        "SIZE", "size limit of the folder (default: 2 GiB)", default=Settings.disk_bytes, read=size_bytes
    )
    max_memory: int = value(
        "SIZE",
        "memory that a window may add to a process before it is closed early (default: 256 MiB)",
        default=Settings.memory_bytes,
        read=size_bytes,
    )
    no_fork: bool = flag("write traces in the job's processes, which pause meanwhile")
    stall_after: float = value(
        "SECONDS",
        "after this long without a step, show where each rank is (default: 300; 0 for never)",
        default=300.0,
        read=_seconds,
    )


class Digests(Options):
    """Digests at the source"""

    digests: bool = flag("digest each window where its ranks ran, at idle priority, to FOLDER/digests")
    keep_traces: int | None = value(
        "N",
        "with --digests: delete digested traces but those of the newest N windows and of ranks that stand out",
        read=whole,
    )
    digest_wait: float = value(
        "SECONDS",
        "time for the last digests when the job is over (default: 30)",
        default=30.0,
        read=_seconds,
    )


class Afterwards(Quiet, Speaking):
    """After the run"""

    diagnose: bool = flag("diagnose at once, on stderr")
    report: bool = flag("write report.html into FOLDER")


class RunOptions(Windows, Limits, Digests, Afterwards):
    """Start a job unchanged, watch its steps, and capture a few of them."""

    verb = "run"
    usage = "[options] [options of torchrun] [--] train.py | -m module | command  [its own arguments]"
    about = """
        Start a job unchanged, watch its steps, capture a few of them on every rank, and leave a folder for `redline
        diagnose`. Without options of torchrun (--nproc-per-node, --nnodes, --rdzv-..., --max-restarts, ...) the job is
        started as `python` would start it, also inside srun, mpirun or an outer torchrun, one `redline run` per rank. A
        command may be `python -u train.py`, `torchrun ... train.py` or `accelerate launch ... train.py`, as it is typed
        without Redline. Ranks that the script starts by itself (torch.multiprocessing.spawn, Lightning, Ray Train, ...)
        are watched too. Exit code, signals and output are the job's own."""
    example = "redline run --nproc-per-node 8 --report train.py --its-own args"
    torchrun: tuple[str, ...] = ()
    job: tuple[str, ...] = ()
    output: str | None = value("FOLDER", "folder of the run (default: a new one in redline-runs)", "-o")
    force: bool = flag("if FOLDER holds a run already, rename that one to FOLDER-2")
    levers: tuple[str, ...] = values(
        "LEVER",
        "run the job with this change, such as fused, or with all of a tuned.toml of `redline tune`",
        "--with",
    )

    @classmethod
    def split(cls, words: list[str]) -> tuple[list[str], dict[str, Any]]:
        """Options of Redline alone: torchrun has its own, and what follows is another program."""
        from redline.capture.supervisor.command import split

        with_value = {name for option in options_of(cls) if option.metavar for name in option.names}
        ours, torchrun, job = split(words, with_value)
        return ours, {"torchrun": tuple(torchrun), "job": tuple(job)}

    def __post_init__(self) -> None:
        if self.watch_only and (self.when or self.every or self.diagnose or self.report or self.digests):
            raise UsageError(
                "run: --watch-only captures nothing, so there is nothing to time, digest, diagnose or report"
            )
        if self.keep_traces is not None and not self.digests:
            raise UsageError("run: --keep-traces deletes traces that were digested; add --digests")


def _record_numbers(options: RunOptions, numbers: str, job: Command) -> int:
    """A few steps of the job by value, instead of watching it."""
    from redline.capture.supervisor.trial_command import TrialCommand
    from redline.numerics import Numerics
    from redline.storage import path_of_this_machine
    from redline.trials.numbers.check import record_numbers

    typed = TrialCommand(words=tuple(options.job), python=job)
    folder = path_of_this_machine(numbers, "run: the folder of --numbers")
    known = record_numbers(typed, folder, floors=[Numerics.REASSOCIATION])
    if not options.quiet:
        _say(f"the numbers of {known.steps} steps are in {numbers}\n")
        _say(f"next: redline compare --numbers-only {quoted([numbers])} OTHER\n")
    return 0


def run(options: RunOptions) -> int:
    from redline.capture.supervisor.command import command
    from redline.capture.supervisor.command_line import understood
    from redline.capture.supervisor.supervise import die_like, forget_pending, interruptible, signals_held
    from redline.verbs.run import Watching
    from redline.verbs.run import run as run_job

    spoken = language(options)
    typed = understood(options.torchrun, options.job)
    job = command(typed.torchrun, typed.job, typed.of_python)
    if options.numbers:
        return _record_numbers(options, options.numbers, job)
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
        ran = run_job(job, _settings(options), options.output, watching, force=options.force)
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


def _settings(options: RunOptions) -> Settings:
    return Settings(
        {
            "kept_levers": _levers(options.levers),
            "capture": not options.watch_only,
            "after": options.after,
            "timed_after_s": options.timed_after,
            "steps": options.steps,
            "every": options.every,
            "when": options.when,
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


def _levers(words: Sequence[str]) -> tuple[str, ...]:
    """Without any, nothing is imported that needs more memory than the job may leave."""
    if not words:
        return ()
    from redline.tuning.tuned_file import levers_of

    return levers_of(words)


def _digest_plan(options: RunOptions) -> DigestPlan | None:
    from redline.capture.supervisor.source_digests import DigestPlan

    if not options.digests:
        return None
    return DigestPlan(keep_traces=options.keep_traces, wait_s=options.digest_wait, most_bytes=options.max_disk)


def _tell_of_stall(stall: Stall, path: Path | None, spoken: str) -> None:
    from redline.report.language import speaking
    from redline.report.run.run_summary import shown_path
    from redline.report.run.stall import document_of_stall
    from redline.report.terminal import text_of

    with speaking(spoken), _for_stderr():
        _say(text_of(document_of_stall(stall, "" if path is None else shown_path(path))))


def _afterwards(ran: Ran, options: RunOptions, spoken: str) -> None:
    if not options.quiet:
        from redline.report.language import speaking
        from redline.report.run import run_summary
        from redline.report.terminal import text_of

        with speaking(spoken), _for_stderr():
            _say(text_of(run_summary.document_of_run(ran.record, ran.folder)))
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


def _diagnose(folder: Path, options: RunOptions, spoken: str) -> None:
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


VERB = Verb(RunOptions, run)
