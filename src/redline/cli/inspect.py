"""`redline inspect` on the command line."""

from __future__ import annotations

from redline.cli.arguments import Executor, Loudness, Reading, Stepping, TextOrJson, job_options, refuse_unknown_format
from redline.cli.options import Verb, flag
from redline.cli.output import code_of_read, deliver, for_stdout, point_to, quoted, tell_tracebacks, unused
from redline.cli.show_progress import progress


class InspectOptions(Reading, Executor, Stepping, TextOrJson, Loudness):
    """Show what traces contain, and how far to trust them."""

    verb = "inspect"
    example = "redline inspect redline-runs/train-1"
    verbose: bool = flag("more detail, and tracebacks", "-v", either="loudness")


def run(options: InspectOptions) -> int:
    from redline.job.merge import why_not_mergeable
    from redline.report import inspect as report
    from redline.report.data import json_text
    from redline.report.terminal import text_of
    from redline.verbs.inspect import inspect

    refuse_unknown_format("inspect", options.output)
    reading = job_options(options)
    with progress(options) as tell:
        job = inspect(options.paths, reading, tell)
    if options.wants_json:
        text = json_text(report.record(job))
    else:
        with for_stdout(options.output):
            text = text_of(report.document_of(job, verbose=options.verbose))
    deliver(text, options.output, force=options.force)
    tell_tracebacks(job.failures, verbose=options.verbose)
    files = {rank.source.name for rank in job.ranks}
    if not options.quiet and len(files) > 1 and not why_not_mergeable(job):
        point_to(f"redline merge {quoted(options.paths)} -o {unused('merged.json.gz')}")
    return code_of_read(len(job.ranks), job.failures)


VERB = Verb(InspectOptions, run)
