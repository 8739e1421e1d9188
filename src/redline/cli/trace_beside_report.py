"""The trace beside an HTML report: `diagnose -o report.html --with-trace`."""

from __future__ import annotations

from redline.cli.arguments import job_options
from redline.cli.show_progress import progress
from redline.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from redline.ranks.find_files import TraceFiles
    from redline.report.redaction.redactor import Redactor


def add_with_trace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--with-trace", action="store_true", help="write the merged trace next to an HTML report, which links to it"
    )


def planned_trace(files: TraceFiles, options: argparse.Namespace, form: str) -> Path | None:
    """Where the trace will go, if one is wanted; what stands against it is said before hours of reading."""
    from redline.analysis.rank.digest_file import is_digest
    from redline.ranks.merge import check_output
    from redline.storage import path_of

    if not options.with_trace:
        return None
    if form != "html" or options.output is None:
        raise UsageError("diagnose: --with-trace is for an HTML report; give it a name, such as -o report.html")
    if any(map(is_digest, files)):
        raise UsageError("diagnose: --with-trace needs the traces themselves, and a digest was given")
    target = path_of(options.output).with_suffix(".trace.json.gz")
    check_output(target, force=options.force)
    return target


def write_trace(target: Path, files: TraceFiles, options: argparse.Namespace, redactor: Redactor | None) -> None:
    from redline.verbs.merge import merge

    reading = job_options(options)
    with progress(options) as tell:
        merge(files, target, redactor=redactor, force=options.force, options=reading, progress=tell)
