"""The command line: find the verb, parse its arguments, run it, and turn how it ended into an exit code.

Results go to stdout, all else to stderr. Each verb has a module here; it is imported when the verb is chosen, and what
the verb needs when it runs, so that help is instant.
"""

from __future__ import annotations

import argparse
import sys

from redline import __version__
from redline.cli.output import ReaderLeft, complain, show, tolerate_odd_names
from redline.errors import RedlineError, UnexpectedError, UsageError

TYPE_CHECKING = False  # typing itself would be a tenth of the cost of --help
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

EXIT_INTERRUPTED = 130  # as shells report Ctrl-C
EXIT_PIPE_CLOSED = 141  # as shells report SIGPIPE: the reader of our output left early

INTRODUCTION = "Accounts for every microsecond of a PyTorch job, from its traces."
EXIT_CODES = """\
exit codes:
  0    success
  1    a condition of --fail-on or --fail-if-slow was met
  2    bad command line, or an input or output that cannot be used
  130  interrupted
"""


def _parse(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    """As most verbs are: options before, between and after what is acted on."""
    return parser.parse_intermixed_args(arguments)


class Verb:
    """One command: what it is for, which arguments it takes, and what runs it."""

    def __init__(
        self,
        summary: str,
        add_arguments: Callable[[argparse.ArgumentParser], None],
        run: Callable[[argparse.Namespace], int],
        parse: Callable[[argparse.ArgumentParser, list[str]], argparse.Namespace] = _parse,
    ) -> None:
        self.summary = summary
        self.add_arguments = add_arguments
        self.run = run
        self.parse = parse


class Parser(argparse.ArgumentParser):
    """An argument parser that complains in UsageErrors and takes options in full only."""

    def __init__(self, verb: str, summary: str) -> None:
        super().__init__(prog=f"redline {verb}", description=summary, allow_abbrev=False)

    def print_help(self, file: object = None) -> None:
        _show_help(self.format_help())  # argparse itself swallows failures to write

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog.removeprefix('redline ')}: {message}\nsee: {self.prog} --help")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` and return its exit code."""
    tolerate_odd_names()
    try:
        return _dispatch(sys.argv[1:] if argv is None else list(argv))
    except RedlineError as error:
        from redline.report.option_names import as_options

        _complain(as_options(str(error)))
        return error.exit_code
    except KeyboardInterrupt:
        print("redline: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except ReaderLeft:
        return EXIT_PIPE_CLOSED
    except Exception:  # noqa: BLE001 (exit code 1, which Python would give, is for thresholds)
        import traceback

        complain(traceback.format_exc().rstrip())
        print("redline: the above is a bug in Redline; please report it with the traceback", file=sys.stderr)
        return RedlineError.exit_code


def _complain(message: str) -> None:
    """Names in a message may come from strangers' files, and be long."""
    lines = (f"{line[:997]}..." if len(line) > 1000 else line for line in message.split("\n"))
    complain("redline: " + "\n".join(lines), "ERROR")


def build_parser(name: str) -> Parser:
    """The parser of one verb."""
    verb = VERBS[name]
    parser = Parser(name, verb.summary)
    verb.add_arguments(parser)
    return parser


def parsers() -> dict[str, Parser]:
    """Of every verb, and of what a verb of several kinds takes for each."""
    from redline.cli.lake import LAKE
    from redline.cli.plan import PLAN

    kinds = {f"{each.verb} {kind}": each.build_parser(kind) for each in (PLAN, LAKE) for kind in each.kinds}
    return {name: build_parser(name) for name in VERBS} | kinds


def _dispatch(arguments: list[str]) -> int:
    if not arguments:
        print(_help(), end="", file=sys.stderr)
        return UsageError.exit_code
    first, rest = arguments[0], arguments[1:]
    if first in ("-h", "--help"):
        _show_help(_help())
    elif first == "--version":
        show(f"redline {__version__}\n")
    elif first == "--completion":
        from redline.cli.completion import run

        return run(rest)
    elif first in VERBS:
        return _run_verb(first, rest)
    else:
        raise UsageError(_unknown(first))
    return 0


def _run_verb(name: str, arguments: list[str]) -> int:
    try:
        options = VERBS[name].parse(build_parser(name), arguments)
    except SystemExit as stop:  # --help was shown; complaints are UsageErrors
        return int(stop.code or 0)
    try:
        return VERBS[name].run(options)
    except UnexpectedError as error:
        if getattr(options, "verbose", False):
            _complain(error.traceback)
        raise


def _help() -> str:
    width = max(map(len, VERBS))
    verbs = "".join(f"  {name:<{width}}  {verb.summary}\n" for name, verb in VERBS.items())
    return (
        f"usage: redline VERB ...\n       redline --help | --version | --completion SHELL\n\n{INTRODUCTION}\n\n"
        f"verbs (see redline VERB --help):\n{verbs}\n{EXIT_CODES}"
    )


def _show_help(text: str) -> None:
    if sys.stdout is not None and sys.stdout.isatty():
        from redline.cli.help_text import folded
        from redline.report.display import display_of

        text = folded(text, display_of(sys.stdout).columns)
    show(text)


def _unknown(word: str) -> str:
    import difflib
    from pathlib import Path

    if word.startswith("-"):
        return f"{word} is not an option of redline itself; options follow the verb\nsee: redline --help"
    near = difflib.get_close_matches(word, VERBS, n=1)
    if near:
        return f"there is no verb {word!r}; did you mean {near[0]!r}?"
    if Path(word).exists():
        return f"{word!r} is not a verb; did you mean: redline inspect {word}"
    return f"there is no verb {word!r}; there are: {', '.join(VERBS)}"


def _verb(name: str, summary: str) -> Verb:
    """The verb of the module of this name, which may have a way of its own to parse."""

    def module() -> Any:
        from importlib import import_module

        return import_module(f"redline.cli.{name}")

    def parse(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
        own: Callable[..., argparse.Namespace] = getattr(module(), "parse", _parse)
        return own(parser, arguments)

    return Verb(
        summary, lambda parser: module().add_arguments(parser), lambda options: int(module().run(options)), parse
    )


VERBS = {
    "run": _verb("run", "start a job unchanged, watch its steps, and capture a few of them"),
    "calibrate": _verb("calibrate", "measure what this machine can do, for diagnose and plan, and as a health check"),
    "plan": _verb("plan", "predict what a training or serving job should cost, and find the best layout"),
    "inspect": _verb("inspect", "show what traces contain, and how far to trust them"),
    "merge": _verb("merge", "merge the ranks of a job on one clock, into one trace for Perfetto"),
    "diagnose": _verb("diagnose", "show where the time went, why, and what to change"),
    "memory": _verb("memory", "show what holds the memory at its peak, and why an allocation failed"),
    "compare": _verb("compare", "say whether a change helped: two recordings, two programs in turns, or a lever"),
    "tune": _verb("tune", "find the levers that make a script faster and keep its numbers right, each proven"),
    "explain": _verb("explain", "explain findings: cause, fix and possible gain"),
    "digest": _verb("digest", "reduce each rank's trace to a file of at most 32 KB, to diagnose from"),
    "lake": _verb("lake", "ask the digests of all jobs: what is lost where, which nodes are late, what changed"),
    "watch": _verb("watch", "follow a long job's digests: a line per window, and what drifts, is late or falls silent"),
    "hardware": _verb("hardware", "show peak figures of accelerators, with their sources"),
    "mcp": _verb("mcp", "serve inspect, diagnose, explain, compare, plan and hardware to AI agents, read-only"),
}
