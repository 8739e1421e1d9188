"""`redline explain` on the command line."""

from __future__ import annotations

from redline.cli.arguments import add_language, language
from redline.cli.output import show

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="*",
        metavar="CODE|WORD",
        help="a finding such as RL-H01 or h01, or words to find one by, such as idle (default: list all)",
    )
    add_language(parser)


def run(options: argparse.Namespace) -> int:
    from redline.report.language import speaking

    with speaking(language(options)):
        show(_about(" ".join(options.words)) if options.words else _everything())
    return 0


def _everything() -> str:
    from redline.report.explain.text import render_all

    return render_all()


def _about(text: str) -> str:
    """The page, or a list where there are several."""
    from redline.findings.page_search import find_pages
    from redline.report.explain.text import render_several
    from redline.report.language import spoken

    pages = find_pages(text, spoken())
    return pages[0].text if len(pages) == 1 else render_several(pages)
