"""`--redact` on the command line: the option, and errors that name no file."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from redline.ranks.find_files import TraceFiles
    from redline.report.redaction.redactor import Redactor


def add_redact(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--redact",
        action="store_true",
        help="remove hosts, users, folders, names of traces and secrets, and report what was removed",
    )


def redacting(
    options: argparse.Namespace, run: Callable[[argparse.Namespace, TraceFiles, Redactor | None], int], *, digests: bool
) -> int:
    """Run a verb on the files that were named, with a redactor where one was asked for: then its errors are clean too.

    `digests` says whether the verb takes digests as well as traces.
    """
    from redline.ranks.find_files import TraceFiles

    files = TraceFiles(options.paths, digests=digests)
    if not options.redact:
        return run(options, files, None)
    from redline.report.redaction.redactor import Redactor

    redactor = Redactor()
    output = [options.output] if options.output else []
    with redactor.in_errors(lambda: [*options.paths, *output, *map(str, files.found)]):
        return run(options, files, redactor)
