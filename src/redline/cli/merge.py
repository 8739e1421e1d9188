"""`redline merge` on the command line."""

from __future__ import annotations

from redline.cli.arguments import add_reading, job_options, size_bytes
from redline.cli.output import point_to, progress, show

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_reading(parser)
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="the merged trace, for Perfetto")
    parser.add_argument(
        "--budget",
        type=size_bytes,
        default="200MB",
        metavar="SIZE",
        help="the merged trace is at most this large; what was left out is said (default: %(default)s)",
    )
    parser.add_argument("--force", action="store_true", help="replace FILE where it exists")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress and no remarks")


def run(options: argparse.Namespace) -> int:
    from redline.report import merge_text
    from redline.verbs.merge import merge

    result = merge(
        options.paths,
        options.output,
        budget_bytes=options.budget,
        force=options.force,
        options=job_options(options),
        progress=progress(options),
    )
    show(merge_text.render(result))
    if not options.quiet:
        point_to(f"open {options.output} in Perfetto (https://ui.perfetto.dev, or your own copy of it)")
    return 0
