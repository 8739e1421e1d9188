"""Arguments that several verbs take, and what they mean."""

from __future__ import annotations

import argparse
import os
import re
from functools import cache

from redline.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from redline.ranks.read_files import JobOptions


LANGUAGES = ("en", "zh")
EXECUTORS = ("pool", "ray")


def positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)


def regex(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a regular expression: {error}") from error
    return text


def size_bytes(text: str) -> int:
    from redline.units import parse_bytes

    try:
        return parse_bytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def add_reading(parser: argparse.ArgumentParser, what: str = "a trace") -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help=f"{what}, an archive, a folder or a glob pattern")
    parser.add_argument("--strict", action="store_true", help="fail on damaged traces instead of repairing them")
    parser.add_argument(
        "--jobs",
        type=positive,
        metavar="N",
        help="reader processes (default: one per core; one for little data)",
    )
    parser.add_argument("--no-cache", action="store_true", help="read the traces again, even if nothing changed")


def add_executor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--executor",
        choices=EXECUTORS,
        metavar="NAME",
        help="what reads the files: pool, processes of this machine (default), or ray",
    )
    parser.add_argument(
        "--address",
        metavar="ADDRESS",
        help="of a Ray cluster that runs (default: $RAY_ADDRESS, or Ray is started on this machine)",
    )


def add_step(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--step-regex",
        type=regex,
        metavar="RE",
        help="regular expression for regions, operators or Python calls that are the steps",
    )


def add_machine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--machine",
        metavar="NAME|FILE",
        help="peaks to use: a record of `redline hardware`, or a profile (default: by the device's name)",
    )


class Once(argparse.Action):
    """Refuses a second file, which would silently replace the first."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        if getattr(namespace, self.dest) is not None:
            parser.error(f"{option_string} was given twice; this verb writes one file at a time")
        setattr(namespace, self.dest, values)


def add_one_output(parser: argparse.ArgumentParser) -> None:
    """A file instead of stdout."""
    what = "write to FILE; the extension sets the format"
    parser.add_argument("-o", "--output", metavar="FILE", action=Once, help=what)
    parser.add_argument("--force", action="store_true", help="replace FILE even if it is not a Redline report")


def add_output(parser: argparse.ArgumentParser, verbose: str) -> None:
    add_one_output(parser)
    add_loudness(parser, verbose)


def add_loudness(parser: argparse.ArgumentParser, verbose: str) -> None:
    loudness = parser.add_mutually_exclusive_group()
    loudness.add_argument("-q", "--quiet", action="store_true", help="no progress and no remarks")
    loudness.add_argument("-v", "--verbose", action="store_true", help=verbose)


def add_language(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--lang",
        type=_short_language,
        choices=LANGUAGES,
        metavar="LANG",
        help="en or zh (default: $REDLINE_LANG, or en)",
    )


def _short_language(name: str) -> str:
    """zh of zh-CN or zh_CN.UTF-8; what is no such name stays as it is."""
    return re.split(r"[-_.]", name.lower(), maxsplit=1)[0] or name


def language(options: argparse.Namespace) -> str:
    """The one that was asked for; what the locale says is not, as programs read the output."""
    chosen = _short_language(str(options.lang or os.environ.get("REDLINE_LANG") or LANGUAGES[0]))
    if chosen not in LANGUAGES:
        raise UsageError(f"REDLINE_LANG is {chosen!r}; it can be {' or '.join(LANGUAGES)}")
    return chosen


def format_of(options: argparse.Namespace, formats: Mapping[str, str]) -> str:
    """The one that was asked for, else by the extension of the file that is written, else text."""
    from pathlib import Path

    return str(options.format or formats.get(Path(options.output or "").suffix, "text"))


def refuse_unknown_format(verb: str, output: str | None, endings: Sequence[str] = (".json", ".txt")) -> None:
    """A name without an extension is one of a text."""
    from pathlib import Path

    if output is not None and Path(output).suffix:
        refuse_other_endings(verb, [output], endings)


def refuse_other_endings(verb: str, outputs: Sequence[str], endings: Sequence[str]) -> None:
    for output in outputs:
        if not output.endswith(tuple(endings)):
            known = f"{', '.join(endings[:-1])} or {endings[-1]}"
            raise UsageError(f"{verb}: {output}: {verb} writes {known}; give the file such a name")


def job_options(options: argparse.Namespace) -> JobOptions:
    from redline.ranks.read_files import JobOptions
    from redline.trace.cache import cache_folder
    from redline.trace.entries import why_unusable
    from redline.trace.reader import ReadOptions

    folder = None if options.no_cache or options.quiet else cache_folder()
    if folder is not None and (why := why_unusable(folder)):
        _remark_once(f"the cache is not used: {why}")
    reading = ReadOptions(step_regex=getattr(options, "step_regex", None), strict=options.strict)
    model = getattr(options, "model", None)
    return JobOptions(
        reading=reading,
        jobs=options.jobs,
        executor=getattr(options, "executor", None) or "pool",
        address=getattr(options, "address", None),
        use_cache=not options.no_cache,
        model=model,
    )


@cache
def _remark_once(text: str) -> None:
    from redline.cli.output import remark

    remark(text)
