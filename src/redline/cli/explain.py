"""`redline explain` on the command line."""

from __future__ import annotations

from redline.cli.arguments import add_language, language
from redline.cli.output import show

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("code", nargs="?", metavar="CODE", help="of a finding: RL-H01, or h01 (default: list all)")
    add_language(parser)


def run(options: argparse.Namespace) -> int:
    from redline.findings.pages import codes, find_page, page_of

    spoken = language(options)
    if options.code is None:
        show("".join(f"{code}  {page_of(code, spoken).title}\n" for code in codes()))
    else:
        show(find_page(options.code, spoken).text)
    return 0
