"""`redline lake add` on the command line."""

from __future__ import annotations

from redline.cli.arguments import add_loudness
from redline.cli.lake import add_lake
from redline.cli.output import point_to, quoted, show, tell_tracebacks
from redline.cli.show_progress import progress
from redline.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a digest, a folder or a glob pattern; all of one job")
    add_lake(parser)
    parser.add_argument(
        "--job", metavar="NAME", help="id of the job (default: its run, else the folder of its digests)"
    )
    parser.add_argument("--team", metavar="NAME", help="who pays for it")
    parser.add_argument("--model", metavar="NAME", help="what it trains or serves")
    parser.add_argument("--cluster", metavar="NAME", help="where it runs")
    parser.add_argument(
        "--hours",
        type=_hours,
        metavar="HOURS",
        help="hours of each GPU that a window stands for, such as 0.1667 for one every 10 minutes (default: the wall "
        "time of the run by its windows, else the window itself)",
    )
    add_loudness(parser, verbose="tracebacks for files that Redline fails on")


def _hours(text: str) -> float:
    import argparse

    try:
        return float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of hours") from error


def run(options: argparse.Namespace) -> int:
    from redline.lake.labels import JobLabels
    from redline.report.lake import text as lake_text
    from redline.verbs.lake import add_to_lake

    if options.job == "":
        raise UsageError("lake add: --job is empty; is a variable of the shell unset?")
    labels = JobLabels(
        job=options.job or "",
        team=options.team or "",
        model=options.model or "",
        cluster=options.cluster or "",
        hours=options.hours,
    )
    with progress(options) as tell:
        added = add_to_lake(options.paths, options.lake, labels=labels, progress=tell)
    show(lake_text.render_added(added))
    tell_tracebacks(added.failures, options)
    if not options.quiet:
        point_to(f"redline lake ask accounts --lake {quoted([options.lake])}")
    return 0
