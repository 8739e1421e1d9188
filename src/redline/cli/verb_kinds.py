"""Verbs whose first word decides which options there are, as `redline plan train`."""

from __future__ import annotations

import argparse

from redline.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from redline.cli import Parser


class VerbKind:
    """One of them: what it is for, in the list of kinds and in its own help."""

    def __init__(self, summary: str, description: str) -> None:
        self.summary = summary
        self.description = description


class VerbKinds:
    """The kinds of one verb; each has a module of its name in the package of the verb."""

    def __init__(self, verb: str, about: str, kinds: Mapping[str, VerbKind], example: str) -> None:
        self.verb = verb
        self.about = about
        self.kinds = kinds
        self.example = example

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.usage = f"redline {self.verb} {{{','.join(self.kinds)}}} [options]"
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        width = max(map(len, self.kinds))
        kinds = "\n".join(f"  {name:<{width}}  {kind.summary}" for name, kind in self.kinds.items())
        parser.description = (
            f"{self.about}\n\nkinds (see redline {self.verb} KIND --help):\n{kinds}\n\nfor example:\n  {self.example}"
        )
        parser.add_argument("kind", metavar="KIND", help=f"one of {', '.join(self.kinds)}; its options follow")

    def build_parser(self, kind: str) -> Parser:
        """The parser of one kind."""
        from redline.cli import Parser

        parser = Parser(f"{self.verb} {kind}", self.kinds[kind].description)
        self.module(kind).add_arguments(parser)
        return parser

    def parse(self, parser: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
        kind = words[0] if words else ""
        if kind in self.kinds:
            return self.build_parser(kind).parse_intermixed_args(words[1:], argparse.Namespace(kind=kind))
        if kind in ("-h", "--help"):
            return parser.parse_args(words)
        raise UsageError(self._unknown(kind))

    def _unknown(self, word: str) -> str:
        import difflib

        if not word or word.startswith("-"):
            which = ", ".join(f"redline {self.verb} {kind}" for kind in self.kinds)
            return f"{self.verb}: say first which kind: {which}"
        near = difflib.get_close_matches(word, self.kinds, n=1)
        hint = f"did you mean: redline {self.verb} {near[0]}" if near else f"there are: {', '.join(self.kinds)}"
        return f"{self.verb}: there is no kind {word!r}; {hint}"

    def run(self, options: argparse.Namespace) -> int:
        return int(self.module(options.kind).run(options))

    def module(self, kind: str) -> Any:
        from importlib import import_module

        return import_module(f"redline.cli.{self.verb}.{kind}")
