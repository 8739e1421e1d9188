"""`redline merge` on the command line."""

from __future__ import annotations

from redline.cli.arguments import Once, add_loudness, add_reading, job_options, size_bytes
from redline.cli.output import point_to, show, tell_tracebacks
from redline.cli.redacting import add_redact, redacting
from redline.cli.show_progress import progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from redline.ranks.find_files import TraceFiles
    from redline.report.redaction.redactor import Redactor


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_reading(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", action=Once, required=True, help="the merged trace, for Perfetto"
    )
    parser.add_argument(
        "--budget",
        type=size_bytes,
        default="200MB",
        metavar="SIZE",
        help="size limit of the merged trace; what is left out is reported (default: %(default)s)",
    )
    parser.add_argument(
        "--critical-path",
        action="store_true",
        help="add a track with the critical path of each step: account, operator or kernel, and rank of each part",
    )
    add_redact(parser)
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    add_loudness(parser, verbose="tracebacks for files that Redline fails on")


def run(options: argparse.Namespace) -> int:
    return redacting(options, _run, digests=False)


def _run(options: argparse.Namespace, files: TraceFiles, redactor: Redactor | None) -> int:
    from redline.report.merge import text as merge_text
    from redline.report.redaction.redaction_notice import redacted_text
    from redline.verbs.merge import merge

    reading = job_options(options)
    with progress(options) as tell:
        result = merge(
            files,
            options.output,
            budget_bytes=options.budget,
            redactor=redactor,
            force=options.force,
            options=reading,
            progress=tell,
            critical_path=options.critical_path,
        )
    text = merge_text.render(result)
    if redactor is not None:
        said = redacted_text(redactor.removed)  # before the name of the file, which is no part of the result
        text = f"{redactor.text(text)}{said}\n"
    show(text)
    tell_tracebacks(result.failures, options)
    if not options.quiet:
        target = options.output if redactor is None else redactor.text(options.output)
        point_to(f"open {target} in Perfetto (https://ui.perfetto.dev, or your own copy of it)")
    return 0
