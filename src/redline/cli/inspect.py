"""`redline inspect` on the command line."""

from __future__ import annotations

from redline.cli.arguments import add_executor, add_output, add_reading, add_step, job_options, refuse_unknown_format
from redline.cli.output import deliver, for_stdout, point_to, quoted, tell_tracebacks, unused
from redline.cli.show_progress import progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_reading(parser)
    add_executor(parser)
    add_step(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    add_output(parser, verbose="more detail, and tracebacks")


def run(options: argparse.Namespace) -> int:
    from redline.ranks.merge import why_not_mergeable
    from redline.report.inspect import json as inspect_json
    from redline.report.inspect import text as inspect_text
    from redline.verbs.inspect import inspect

    refuse_unknown_format("inspect", options.output)
    reading = job_options(options)
    with progress(options) as tell:
        job = inspect(options.paths, reading, tell)
    if options.json or str(options.output or "").endswith(".json"):
        text = inspect_json.render(job)
    else:
        with for_stdout(options.output):
            text = inspect_text.render(job, verbose=options.verbose)
    deliver(text, options.output, force=options.force)
    tell_tracebacks(job.failures, options)
    files = {rank.source.name for rank in job.ranks}
    if not options.quiet and len(files) > 1 and not why_not_mergeable(job):
        point_to(f"redline merge {quoted(options.paths)} -o {unused('merged.json.gz')}")
    return 0
