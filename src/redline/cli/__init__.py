"""The command line: find the verb, parse its arguments, run it, and turn how it ended into an exit code.

Results go to stdout, all else to stderr. Each verb has a module here; it is imported when the verb is chosen, and what
the verb needs when it runs, so that help is instant.
"""

from __future__ import annotations

import sys

from redline import __version__
from redline.cli.output import ReaderLeft, complain, complain_at_length, show, tolerate_odd_names
from redline.cli.verb_table import VERBS, VERBS_BY_USE, verb_of
from redline.errors import RedlineError, UsageError

TYPE_CHECKING = False  # typing itself would be a tenth of the cost of --help
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

EXIT_INTERRUPTED = 130  # as shells report Ctrl-C
EXIT_PIPE_CLOSED = 141  # as shells report SIGPIPE: the reader of our output left early

EXIT_CODES = (
    ("0", "success"),
    ("1", "a condition of --fail-on or --fail-if-slow was met"),
    ("2", "bad command line, or an input or output that cannot be used"),
    ("130", "interrupted"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` and return its exit code."""
    tolerate_odd_names()
    try:
        return _dispatch(sys.argv[1:] if argv is None else list(argv))
    except RedlineError as error:
        from redline.report.option_names import as_options

        complain_at_length(as_options(str(error)))
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


def _dispatch(words: list[str]) -> int:
    if not words:
        print("\n".join(_help()), file=sys.stderr)
        return UsageError.exit_code
    first, rest = words[0], words[1:]
    if first in VERBS:
        return verb_of(first)(rest)
    if first in ("-h", "--help"):
        from redline.cli.help_text import show_help

        show_help(_help())
    elif first == "--version":
        show(f"redline {__version__}\n")
    elif first == "--completion":
        from redline.cli.completion import run

        return run(rest)
    else:
        raise UsageError(_unknown(first))
    return 0


def _help() -> Iterator[str]:
    from redline.cli.help_text import prose, section, usage

    yield from usage("VERB ...", "--help | --version | --completion SHELL")
    yield from ("", *prose("Accounts for every microsecond of a PyTorch job, from its traces."))
    for use, verbs in VERBS_BY_USE.items():
        yield from section(use, list(verbs.items()), max(map(len, VERBS)))
    yield from ("", *prose("Each verb has its own options: redline VERB --help."))
    yield from section("Exit codes", EXIT_CODES, 3)


def _unknown(word: str) -> str:
    import difflib
    from pathlib import Path

    if word.startswith("-"):
        return f"{word} is not an option of redline itself; options follow the verb\nsee: redline --help"
    near = difflib.get_close_matches(word, VERBS, n=1)
    if near:
        return f"there is no verb {word!r}; did you mean {near[0]!r}?"
    if (path := Path(word)).exists():
        from redline.capture.run_record import NAME

        verb = "diagnose" if (path / NAME).exists() else "inspect"
        return f"{word!r} is not a verb; did you mean: redline {verb} {word}"
    return f"there is no verb {word!r}; there are: {', '.join(VERBS)}"
