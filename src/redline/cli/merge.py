"""`redline merge` on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redline.cli.arguments import Loudness, Reading, Redacting, job_options, redacting
from redline.cli.options import Once, Verb, flag, value
from redline.cli.output import code_of_read, point_to, show, tell_tracebacks
from redline.cli.show_progress import progress
from redline.cli.values import size_bytes

if TYPE_CHECKING:
    from redline.job.find_files import TraceFiles
    from redline.report.redaction.redactor import Redactor


class MergeOptions(Reading, Redacting, Loudness):
    """Merge the ranks of a job on one clock, into one trace for Perfetto."""

    verb = "merge"
    example = "redline merge traces/ -o merged.json.gz --critical-path"
    output: str = value("FILE", "the merged trace, for Perfetto", "-o", required=True, action=Once)
    force: bool = flag("replace FILE if it exists")
    budget: int = value(
        "SIZE",
        "size limit of the merged trace; what is left out is reported (default: 200MB)",
        default=200_000_000,
        read=size_bytes,
    )
    critical_path: bool = flag(
        "add a track with the critical path of each step: account, operator or kernel, and rank of each part"
    )


def run(options: MergeOptions) -> int:
    return redacting(options, _run, digests=False)


def _run(options: MergeOptions, files: TraceFiles, redactor: Redactor | None) -> int:
    from redline.report.redaction.redactor import redacted_text
    from redline.report.terminal import text_of
    from redline.report.written import document_of_merge
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
    text = text_of(document_of_merge(result))
    if redactor is not None:
        said = redacted_text(redactor.removed)  # before the name of the file, which is no part of the result
        text = f"{redactor.text(text)}{said}\n"
    show(text)
    tell_tracebacks(result.failures, verbose=options.verbose)
    if not options.quiet:
        target = options.output if redactor is None else redactor.text(options.output)
        point_to(f"open {target} in Perfetto (https://ui.perfetto.dev, or your own copy of it)")
    return code_of_read(len(result.ranks), result.failures)


VERB = Verb(MergeOptions, run)
