"""`redline lake` on the command line: what to do with the lake comes first, and each has its own options."""

from __future__ import annotations

import argparse

from redline.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from redline.cli import Parser

KINDS = {
    "add": "add the digests of one job",
    "ask": "ask a question by its name, or with SQL",
    "prune": "remove what is older than some days",
}
DESCRIPTIONS = {
    "add": "Add the digests of one job to a lake; it is diagnosed as a whole, and added again it counts once.",
    "ask": "Ask a lake a question by its name, or one SELECT over the tables digests, findings and operators.",
    "prune": "Remove windows that ended more than some days ago from a lake, and merge what is left.",
}
EXAMPLE = "redline lake ask teams --lake /shared/lake"
USAGE = f"redline lake {{{','.join(KINDS)}}} [options]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = USAGE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    width = max(map(len, KINDS))
    kinds = "\n".join(f"  {name:<{width}}  {summary}" for name, summary in KINDS.items())
    parser.description = (
        "Digests of all jobs in one folder of Parquet files, asked by name or with SQL.\n\n"
        f"what can be done (see redline lake KIND --help):\n{kinds}\n\n"
        f"for example:\n  {EXAMPLE}"
    )
    parser.add_argument("kind", metavar="KIND", help=f"one of {', '.join(KINDS)}; its options follow")


def build_parser(kind: str) -> Parser:
    """The parser of one kind."""
    from redline.cli import Parser

    parser = Parser(f"lake {kind}", DESCRIPTIONS[kind])
    _module(kind).add_arguments(parser)
    return parser


def parse(parser: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    kind = words[0] if words else ""
    if kind in KINDS:
        return build_parser(kind).parse_intermixed_args(words[1:], argparse.Namespace(kind=kind))
    if kind in ("-h", "--help"):
        return parser.parse_args(words)
    raise UsageError(_unknown(kind))


def _unknown(word: str) -> str:
    import difflib

    if not word or word.startswith("-"):
        return f"lake: say first what to do: {', '.join(f'redline lake {kind}' for kind in KINDS)}"
    near = difflib.get_close_matches(word, KINDS, n=1)
    hint = f"did you mean: redline lake {near[0]}" if near else f"there are: {', '.join(KINDS)}"
    return f"lake: there is no {word!r}; {hint}"


def run(options: argparse.Namespace) -> int:
    return int(_module(options.kind).run(options))


def add_lake(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--lake", metavar="FOLDER", required=True, help="folder of the lake")


def _module(kind: str) -> Any:
    from importlib import import_module

    return import_module(f"redline.cli.lake.{kind}")
