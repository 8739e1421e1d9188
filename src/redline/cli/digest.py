"""`redline digest` on the command line."""

from __future__ import annotations

import os

from redline.cli.arguments import Once, add_executor, add_loudness, add_machine, add_reading, add_step, job_options
from redline.cli.output import point_to, quoted, remark, show, tell_tracebacks
from redline.cli.redacting import add_redact, redacting
from redline.cli.show_progress import progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from redline.ranks.find_files import TraceFiles
    from redline.report.redaction.redactor import Redactor


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_reading(parser)
    add_executor(parser)
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", action=Once, required=True, help="folder for the digests, one per rank"
    )
    parser.add_argument(
        "--shard",
        metavar="I/N",
        help="digest part I of N alone, counted from 0; auto: as Slurm's array, torchrun or Kubernetes (auto/N) say",
    )
    add_machine(parser)
    add_step(parser)
    add_redact(parser)
    parser.add_argument("--force", action="store_true", help="replace digests if they exist")
    add_loudness(parser, verbose="tracebacks for files that Redline fails on")


def run(options: argparse.Namespace) -> int:
    return redacting(options, _run, digests=False)


def _run(options: argparse.Namespace, files: TraceFiles, redactor: Redactor | None) -> int:
    from redline.ranks.shard import shard_from
    from redline.report.digest import text as digest_text
    from redline.report.redaction.redaction_notice import redacted_text
    from redline.verbs.digest import digest

    shard = None if options.shard is None else shard_from(options.shard, os.environ)
    reading = job_options(options)
    with progress(options) as tell:
        written = digest(
            files,
            options.output,
            machine=options.machine,
            shard=shard,
            redactor=redactor,
            force=options.force,
            options=reading,
            progress=tell,
        )
    removed = None if redactor is None else redactor.removed  # before the folder below, which is no part of the result
    folder = options.output if redactor is None else redactor.text(options.output)
    show(digest_text.render(written, folder))
    tell_tracebacks(written.failures, options)
    if removed is not None:
        show(f"{redacted_text(removed)}\n")
    if not options.quiet and shard is not None and shard.count > 1:
        remark(f"part {shard} is written; when all {shard.count} are: redline diagnose {quoted([folder])}")
    elif not options.quiet:
        point_to(f"redline diagnose {quoted([folder])}")
    return 0
