"""`redline digest` on the command line."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from redline.cli.arguments import Executor, Loudness, Machine, Reading, Redacting, Stepping, job_options, redacting
from redline.cli.options import Once, Verb, flag, value
from redline.cli.output import code_of_read, point_to, quoted, remark, show, tell_tracebacks
from redline.cli.show_progress import progress

if TYPE_CHECKING:
    from redline.job.find_files import TraceFiles
    from redline.report.redaction.redactor import Redactor


class DigestOptions(Reading, Executor, Machine, Stepping, Redacting, Loudness):
    """Reduce each rank's trace to a file of at most 32 KB, to diagnose from."""

    verb = "digest"
    example = "redline digest /shared/traces -o digests --shard auto"
    output: str = value("FOLDER", "folder for the digests, one per rank", "-o", required=True, action=Once)
    force: bool = flag("replace digests if they exist")
    shard: str | None = value(
        "I/N",
        "digest part I of N alone, counted from 0; auto: as Slurm's array, torchrun or Kubernetes (auto/N) say",
    )


def run(options: DigestOptions) -> int:
    return redacting(options, _run, digests=False)


def _run(options: DigestOptions, files: TraceFiles, redactor: Redactor | None) -> int:
    from redline.job.shard import shard_from
    from redline.report.redaction.redactor import redacted_text
    from redline.report.terminal import text_of
    from redline.report.written import document_of_digests
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
    show(text_of(document_of_digests(written, folder)))
    tell_tracebacks(written.failures, verbose=options.verbose)
    if removed is not None:
        show(f"{redacted_text(removed)}\n")
    if not options.quiet and shard is not None and shard.count > 1:
        remark(f"part {shard} is written; when all {shard.count} are: redline diagnose {quoted([folder])}")
    elif not options.quiet:
        point_to(f"redline diagnose {quoted([folder])}")
    return code_of_read(len(written.paths), written.failures)


VERB = Verb(DigestOptions, run)
