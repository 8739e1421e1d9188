"""`--redact` on the command line: the option, and errors that name no file."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from redline.report.redaction.redactor import Redactor


def add_redact(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--redact", action="store_true", help="take out hosts, users, folders, names of traces and secrets, and say so"
    )


def redacting(options: argparse.Namespace, run: Callable[[argparse.Namespace, Redactor | None], int]) -> int:
    """Run a verb with a redactor where one was asked for; errors that it raises are clean too."""
    if not options.redact:
        return run(options, None)
    from redline.report.redaction.redactor import Redactor

    redactor = Redactor()
    with redactor.in_errors(lambda: _files_named(options)):
        return run(options, redactor)


def _files_named(options: argparse.Namespace) -> list[str]:
    """What an error may name: what the user gave, and the files that it stands for."""
    from contextlib import suppress

    from redline.errors import InputError
    from redline.ranks.find_files import find_traces

    names = [*options.paths, *([options.output] if options.output else [])]
    with suppress(InputError):
        names += map(str, find_traces(options.paths, digests=True))
    return names
