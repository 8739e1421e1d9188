"""What every kind of plan can write: text or JSON on stdout, and a page."""

from __future__ import annotations

from redline.cli.arguments import add_language
from redline.cli.output import deliver, point_to, quoted
from redline.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable


def add_output(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--report", metavar="PAGE", help="write a page with charts, such as plan.html")
    parser.add_argument("--force", action="store_true", help="replace files that exist")
    parser.add_argument("-q", "--quiet", action="store_true", help="no `next:` line")
    add_language(parser)


def refuse_early(options: argparse.Namespace) -> None:
    """What cannot be written is said before anything is computed."""
    from pathlib import Path

    from redline.artifacts import refuse_unless_writable

    if options.report is None:
        return
    if not options.report.endswith(".html"):
        raise UsageError(
            f"plan {options.kind}: {options.report}: the page is HTML; give the file a name that ends in .html"
        )
    refuse_unless_writable(Path(options.report), force=options.force)


def deliver_page(options: argparse.Namespace, page: Callable[[], str]) -> None:
    """Where one was asked for."""
    if options.report is None:
        return
    deliver(page(), options.report, force=options.force)
    if not options.quiet:
        point_to(f"open {quoted([options.report])} in a browser")
