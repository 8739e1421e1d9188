"""`redline lake prune` on the command line."""

from __future__ import annotations

from redline.cli.arguments import positive
from redline.cli.lake import add_lake
from redline.cli.output import show

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_lake(parser)
    parser.add_argument(
        "--days", type=positive, metavar="N", required=True, help="keep the last N days, today (UTC) being one"
    )


def run(options: argparse.Namespace) -> int:
    from redline.report.lake import text as lake_text
    from redline.verbs.lake import prune_lake

    show(lake_text.render_pruned(prune_lake(options.lake, options.days)))
    return 0
