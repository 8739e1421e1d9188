"""The command line: find the verb, parse its arguments, run it, and turn how it ended into an exit code.

Results go to stdout, all else to stderr. A verb's own modules are imported only when that verb runs, so that help is
instant.
"""

from __future__ import annotations

import argparse
import os
import re
import sys

from redline import __version__
from redline.errors import OutputError, RedlineError, UsageError

TYPE_CHECKING = False  # typing itself would be a tenth of the cost of --help
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

    from redline.analysis.job.combine import Diagnosis
    from redline.trace.job import JobOptions, Progress

EXIT_INTERRUPTED = 130  # as shells report Ctrl-C
EXIT_PIPE_CLOSED = 141  # as shells report SIGPIPE: the reader of our output left early

PLANNED = ("calibrate", "plan", "run", "compare", "tune", "explain")
INTRODUCTION = "Accounts for every microsecond of a PyTorch job, from its traces."
EXIT_CODES = """\
exit codes:
  0    fine
  2    the command line, an input or an output cannot be used
  130  interrupted
"""


class Verb:
    """One command: what it is for, which arguments it takes, and what runs it."""

    def __init__(
        self,
        summary: str,
        add_arguments: Callable[[argparse.ArgumentParser], None],
        run: Callable[[argparse.Namespace], int],
    ) -> None:
        self.summary = summary
        self.add_arguments = add_arguments
        self.run = run


class Parser(argparse.ArgumentParser):
    """An argument parser that complains in UsageErrors and takes options in full only."""

    def __init__(self, verb: str, summary: str) -> None:
        super().__init__(prog=f"redline {verb}", description=summary, allow_abbrev=False)

    def print_help(self, file: object = None) -> None:
        _show(self.format_help())  # argparse itself swallows failures to write

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog.removeprefix('redline ')}: {message}\nsee: {self.prog} --help")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` and return its exit code."""
    _tolerate_odd_names()
    try:
        return _dispatch(sys.argv[1:] if argv is None else list(argv))
    except RedlineError as error:
        _complain(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        print("redline: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except _ReaderLeft:
        return EXIT_PIPE_CLOSED
    except Exception:  # noqa: BLE001 (exit code 1, which Python would give, is for thresholds)
        import traceback

        traceback.print_exc()
        print("redline: the above is a bug of Redline; please report it with the traceback", file=sys.stderr)
        return RedlineError.exit_code


def _complain(message: str) -> None:
    """Names in a message may come from strangers' files: nothing in them may reach the terminal as a command."""
    from redline.report.words import printable

    lines = (printable(line, limit=1000) for line in message.split("\n"))
    print("redline: " + "\n".join(lines), file=sys.stderr)


def build_parser(name: str) -> Parser:
    """The parser of one verb."""
    verb = VERBS[name]
    parser = Parser(name, verb.summary)
    verb.add_arguments(parser)
    return parser


def _dispatch(arguments: list[str]) -> int:
    if not arguments:
        print(_help(), end="", file=sys.stderr)
        return UsageError.exit_code
    first, rest = arguments[0], arguments[1:]
    if first in ("-h", "--help"):
        _show(_help())
    elif first == "--version":
        _show(f"redline {__version__}\n")
    elif first in VERBS:
        return _run_verb(first, rest)
    else:
        raise UsageError(_unknown(first))
    return 0


def _run_verb(name: str, arguments: list[str]) -> int:
    try:
        options = build_parser(name).parse_intermixed_args(arguments)
    except SystemExit as stop:  # --help was shown; complaints are UsageErrors
        return int(stop.code or 0)
    return VERBS[name].run(options)


def _help() -> str:
    width = max(map(len, VERBS))
    verbs = "".join(f"  {name:<{width}}  {verb.summary}\n" for name, verb in VERBS.items())
    return (
        f"usage: redline VERB ...\n       redline --help | --version\n\n{INTRODUCTION}\n\n"
        f"verbs (redline VERB --help says more):\n{verbs}\n{EXIT_CODES}"
    )


def _unknown(word: str) -> str:
    import difflib
    from pathlib import Path

    if word.startswith("-"):
        return f"{word} is not an option of redline itself; options follow the verb\nsee: redline --help"
    if word in PLANNED:
        return f"{word!r} is planned, but not there yet; there are: {', '.join(VERBS)}"
    near = difflib.get_close_matches(word, VERBS, n=1)
    if near:
        return f"there is no verb {word!r}; did you mean {near[0]!r}?"
    if Path(word).exists():
        return f"{word!r} is not a verb; did you mean: redline inspect {word}"
    return f"there is no verb {word!r}; there are: {', '.join(VERBS)}"


# --- stdout ---------------------------------------------------------------------------------------------------------


class _ReaderLeft(Exception):  # noqa: N818 (nobody's error)
    """Whatever read our stdout closed it, as `head` does. Unlike BrokenPipeError, it is never another pipe's."""


def _show(text: str) -> None:
    """Write to stdout at once, so that failures surface here and not when the interpreter exits."""
    if sys.stdout is None:
        raise OutputError("cannot write to standard output: it is closed")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError as error:
        _abandon_stdout()
        raise _ReaderLeft from error
    except OSError as error:
        _abandon_stdout()
        raise OutputError(f"cannot write to standard output: {error.strerror}") from error


def _abandon_stdout() -> None:
    """Send what is still buffered nowhere, or the interpreter fails again when it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _tolerate_odd_names() -> None:
    """File names need not be valid text; show what cannot be encoded as escapes instead of failing."""
    import io

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _deliver(text: str, output: str | None, *, force: bool) -> None:
    """The result of a verb: into the file that the user named, or on stdout."""
    if output is None:
        _show(text)
        return
    from pathlib import Path

    from redline.artifacts import write_atomic

    with write_atomic(Path(output), force=force) as file:
        file.write(text.encode(errors="backslashreplace"))


# --- arguments ------------------------------------------------------------------------------------------------------


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)


def _regex(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a regular expression: {error}") from error
    return text


def _size_bytes(text: str) -> int:
    from redline.units import parse_bytes

    try:
        return parse_bytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _add_reading_arguments(parser: argparse.ArgumentParser, what: str = "a trace") -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help=f"{what}, an archive, a folder or a pattern of them")
    parser.add_argument("--strict", action="store_true", help="fail on damaged traces instead of repairing them")
    parser.add_argument(
        "--jobs",
        type=_positive,
        metavar="N",
        help="processes that read (default: one per core; one for little data)",
    )
    parser.add_argument("--no-cache", action="store_true", help="read the traces again, even where nothing changed")


def _add_step_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--step-regex",
        type=_regex,
        metavar="RE",
        help="regions, operators or Python calls named like this are the steps",
    )


def _add_machine_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--machine",
        metavar="NAME|FILE",
        help="whose peaks to use: a record of `redline hardware`, or a profile (default: by the device's name)",
    )


def _add_output_arguments(parser: argparse.ArgumentParser, verbose: str) -> None:
    parser.add_argument("-o", "--output", metavar="FILE", help="write to FILE; its extension says the format")
    parser.add_argument("--force", action="store_true", help="replace FILE where it exists")
    loudness = parser.add_mutually_exclusive_group()
    loudness.add_argument("-q", "--quiet", action="store_true", help="no progress and no remarks")
    loudness.add_argument("-v", "--verbose", action="store_true", help=verbose)


def _add_inspect_arguments(parser: argparse.ArgumentParser) -> None:
    _add_reading_arguments(parser)
    _add_step_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    _add_output_arguments(parser, verbose="more detail")


# The tables of `diagnose`, each an option; what says how they look is imported when one is asked for.
TABLES = {
    "kernels": "kernels by operator and shape: time, achieved rates, distance from the roof",
    "collectives": "collectives by kind and size: time, hidden and waiting share, bandwidth",
    "ranks": "ranks: step, accounts, who was late",
    "steps": "steps: length and accounts of each",
    "host": "what the host did while the device waited for it",
}


def _add_diagnose_arguments(parser: argparse.ArgumentParser) -> None:
    _add_reading_arguments(parser, "a trace, a digest")
    _add_machine_argument(parser)
    _add_step_argument(parser)
    for name, summary in TABLES.items():
        parser.add_argument(
            f"--{name}", action="append_const", const=name, dest="tables", help=f"add a table of {summary}"
        )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")
    form.add_argument(
        "--format", choices=("text", "md", "json"), metavar="FORMAT", help="text, md or json (default: text)"
    )
    _add_output_arguments(parser, verbose="tables without a limit of rows")


def _add_digest_arguments(parser: argparse.ArgumentParser) -> None:
    _add_reading_arguments(parser)
    parser.add_argument("-o", "--output", metavar="FOLDER", required=True, help="where the digests go, one per rank")
    _add_machine_argument(parser)
    _add_step_argument(parser)
    parser.add_argument("--force", action="store_true", help="replace digests where they exist")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress and no remarks")


def _add_merge_arguments(parser: argparse.ArgumentParser) -> None:
    _add_reading_arguments(parser)
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="the merged trace, for Perfetto")
    parser.add_argument(
        "--budget",
        type=_size_bytes,
        default="200MB",
        metavar="SIZE",
        help="the merged trace is at most this large; what was left out is said (default: %(default)s)",
    )
    parser.add_argument("--force", action="store_true", help="replace FILE where it exists")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress and no remarks")


def _add_hardware_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="a record, part of its name, or a profile (.json)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("-o", "--output", metavar="FILE", help="write to FILE; its extension says the format")
    parser.add_argument("--force", action="store_true", help="replace FILE where it exists")


# --- verbs ----------------------------------------------------------------------------------------------------------


def _run_inspect(options: argparse.Namespace) -> int:
    from redline.report import inspect_json, inspect_text
    from redline.trace.merge import why_not_mergeable
    from redline.verbs.inspect import inspect

    _refuse_unknown_format("inspect", options.output)
    job = inspect(options.paths, _job_options(options), _progress(options))
    if options.json or str(options.output or "").endswith(".json"):
        text = inspect_json.render(job)
    else:
        text = inspect_text.render(job, verbose=options.verbose)
    _deliver(text, options.output, force=options.force)
    files = {rank.source.name for rank in job.ranks}
    if not options.quiet and len(files) > 1 and not why_not_mergeable(job):
        _next(f"redline merge {_quoted(options.paths)} -o {_unused('merged.json.gz')}")
    return 0


def _refuse_unknown_format(verb: str, output: str | None, endings: Sequence[str] = (".json", ".txt")) -> None:
    from pathlib import Path

    if output is not None and Path(output).suffix not in (*endings, ""):
        known = f"{', '.join(endings[:-1])} or {endings[-1]}"
        raise UsageError(f"{verb}: {output}: {verb} writes {known}; give the file such a name")


def _run_diagnose(options: argparse.Namespace) -> int:
    from pathlib import Path

    from redline.report import diagnose_json, diagnose_md, diagnose_text
    from redline.verbs.diagnose import diagnose

    _refuse_unknown_format("diagnose", options.output, (".json", ".md", ".txt"))
    tables = list(dict.fromkeys(options.tables or ()))
    found = diagnose(options.paths, machine=options.machine, options=_job_options(options), progress=_progress(options))
    known = found.diagnosis, found.outline, found.failures
    form = options.format or {".json": "json", ".md": "md"}.get(Path(options.output or "").suffix, "text")
    if form == "json":
        text = diagnose_json.render(*known)
    elif form == "md":
        text = diagnose_md.render(*known, tables=tables, verbose=options.verbose)
    else:
        unicode = options.output is not None or _speaks_unicode()
        text = diagnose_text.render(*known, tables=tables, verbose=options.verbose, unicode=unicode)
    _deliver(text, options.output, force=options.force)
    if not options.quiet:
        _point_onwards(options, [bar.account for bar in found.outline.largest], tables, found.diagnosis)
    return 0


# The table that says more about an account; of the others there is none.
_TABLE_OF = {
    "memory": "kernels",
    "kernel loss": "kernels",
    "unrated compute": "kernels",
    "transfer": "collectives",
    "peer wait": "ranks",
    "input": "host",
    "sync": "host",
    "host": "host",
}


def _point_onwards(
    options: argparse.Namespace, losses: Sequence[str], shown: Sequence[str], diagnosis: Diagnosis
) -> None:
    """Name the table for the largest loss that has one and was not shown; else what shows all ranks at once."""
    wanted = [table for table in (_TABLE_OF.get(loss) for loss in losses[:2]) if table and table not in shown]
    if wanted:
        chosen = [word for name in ("machine", "step_regex") for word in _given(options, name)]
        _next(f"redline diagnose {_quoted(options.paths)} {_quoted([*chosen, f'--{wanted[0]}'], most=9)}")
    elif diagnosis.clocks.operations and diagnosis.clocks.trusted and _are_traces(options.paths):
        _next(f"redline merge {_quoted(options.paths)} -o {_unused('merged.json.gz')}")


def _are_traces(paths: Sequence[str]) -> bool:
    """Several files, none of which is a digest: digests cannot be merged."""
    from redline.analysis.rank.digest_file import is_digest
    from redline.trace.find import find_traces

    found = find_traces(paths, digests=True)
    return len(found) > 1 and not any(map(is_digest, found))


def _given(options: argparse.Namespace, name: str) -> list[str]:
    value = getattr(options, name)
    return [] if value is None else [f"--{name.replace('_', '-')}", value]


def _speaks_unicode() -> bool:
    encoding = getattr(sys.stdout, "encoding", None) or ""  # standard output may be closed
    return encoding.lower().replace("-", "").startswith("utf")


def _run_digest(options: argparse.Namespace) -> int:
    from redline.report import digest_text
    from redline.verbs.digest import digest

    written = digest(
        options.paths,
        options.output,
        machine=options.machine,
        force=options.force,
        options=_job_options(options),
        progress=_progress(options),
    )
    _show(
        digest_text.render(
            options.output,
            ranks=len(written.paths),
            size_bytes=written.size_bytes,
            largest_bytes=written.largest_bytes,
            left_out=written.left_out,
            failures=written.failures,
        )
    )
    if not options.quiet:
        _next(f"redline diagnose {_quoted([options.output])}")
    return 0


def _run_merge(options: argparse.Namespace) -> int:
    from redline.report import merge_text
    from redline.verbs.merge import merge

    result = merge(
        options.paths,
        options.output,
        budget_bytes=options.budget,
        force=options.force,
        options=_job_options(options),
        progress=_progress(options),
    )
    _show(merge_text.render(result))
    if not options.quiet:
        _next(f"open {options.output} in Perfetto (https://ui.perfetto.dev, or your own copy of it)")
    return 0


def _run_hardware(options: argparse.Namespace) -> int:
    from redline.report import hardware_json, hardware_text
    from redline.verbs.hardware import find_hardware

    _refuse_unknown_format("hardware", options.output)
    machines = find_hardware(options.name)
    if options.json or str(options.output or "").endswith(".json"):
        text = hardware_json.render(machines)
    elif options.name is not None and len(machines) == 1:
        text = hardware_text.render_one(machines[0])
    else:
        text = hardware_text.render_table(machines)
    _deliver(text, options.output, force=options.force)
    return 0


def _job_options(options: argparse.Namespace) -> JobOptions:
    from redline.trace.job import JobOptions
    from redline.trace.reader import ReadOptions

    reading = ReadOptions(step_regex=getattr(options, "step_regex", None), strict=options.strict)
    return JobOptions(reading=reading, jobs=options.jobs, use_cache=not options.no_cache)


def _progress(options: argparse.Namespace) -> Progress | None:
    """A counter on the terminal while many files are read."""
    if options.quiet or not sys.stderr.isatty():
        return None

    def show(done: int, total: int) -> None:
        if total > 1:
            end = "\r" if done < total else "\r\033[K"
            print(f"read {done} of {total} traces", end=end, file=sys.stderr, flush=True)

    return show


def _quoted(words: Sequence[str], most: int = 3) -> str:
    import shlex

    return shlex.join(words[:most]) + (" ..." if len(words) > most else "")


def _unused(name: str) -> str:
    from pathlib import Path

    return next(free for free in (name, *(f"{number}-{name}" for number in range(2, 1000))) if not Path(free).exists())


def _next(command: str) -> None:
    from redline.report.words import printable

    print(f"next: {printable(command, limit=1000)}", file=sys.stderr)


VERBS = {
    "inspect": Verb("say what is in traces, and how far it can be trusted", _add_inspect_arguments, _run_inspect),
    "merge": Verb("put the ranks of a job on one clock, in one trace for Perfetto", _add_merge_arguments, _run_merge),
    "diagnose": Verb(
        "say where the time went, every nanosecond in one account", _add_diagnose_arguments, _run_diagnose
    ),
    "digest": Verb(
        "put each rank's trace into a file of at most 32 KB, to diagnose from", _add_digest_arguments, _run_digest
    ),
    "hardware": Verb("show what accelerators can do at best, and who says so", _add_hardware_arguments, _run_hardware),
}
