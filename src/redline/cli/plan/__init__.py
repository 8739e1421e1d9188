"""`redline plan` on the command line: what to plan comes first, and each kind of plan has its own options."""

from __future__ import annotations

import argparse

from redline.errors import ParameterError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from redline.cli import Parser

KINDS = {
    "train": "a training job: time, memory and cost of a step, the best layout, the whole job",
    "serve": "serving: time to the first token, time per token, throughput, by size and precision",
    "validate": "how well plans predict published measurements",
}
DESCRIPTIONS = {
    "train": "Predict what a training job should cost before it runs, and find the best layout.",
    "serve": "Predict latency and throughput of serving a model, and find the best configuration.",
    "validate": "Compare plans with the published measurements that come with Redline.",
}
EXAMPLE = "redline plan train --model llama-3.1-8b --machine H100-SXM5-80GB --gpus 64 --sequence 8192 --batch 512"
USAGE = f"redline plan {{{','.join(KINDS)}}} [options]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = USAGE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    width = max(map(len, KINDS))
    kinds = "\n".join(f"  {name:<{width}}  {summary}" for name, summary in KINDS.items())
    parser.description = (
        "Predict what a job should cost before it runs, with an interval.\n\n"
        f"what can be planned (see redline plan KIND --help):\n{kinds}\n\n"
        f"for example:\n  {EXAMPLE}"
    )
    parser.add_argument("kind", metavar="KIND", help=f"one of {', '.join(KINDS)}; its options follow")


def build_parser(kind: str) -> Parser:
    """The parser of one kind of plan."""
    from redline.cli import Parser

    parser = Parser(f"plan {kind}", DESCRIPTIONS[kind])
    _module(kind).add_arguments(parser)
    return parser


def parse(parser: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    kind = words[0] if words else ""
    if kind in KINDS:
        return build_parser(kind).parse_args(words[1:], argparse.Namespace(kind=kind))
    if kind in ("-h", "--help"):
        return parser.parse_args(words)
    raise UsageError(_unknown(kind))


def _unknown(word: str) -> str:
    import difflib

    if not word or word.startswith("-"):
        return f"plan: say first what to plan: {', '.join(f'redline plan {kind}' for kind in KINDS)}"
    near = difflib.get_close_matches(word, KINDS, n=1)
    hint = f"did you mean: redline plan {near[0]}" if near else f"there are: {', '.join(KINDS)}"
    return f"plan: there is no kind of plan {word!r}; {hint}"


# Options that are not called like the parameter of `redline.plan_training` or `redline.plan_serving` that they set.
OPTIONS = {"flash": "no-flash", "storage_bytes_per_s": "storage", "max_ttft_s": "max-ttft", "max_tpot_s": "max-tpot"}


def run(options: argparse.Namespace) -> int:
    try:
        return int(_module(options.kind).run(options))
    except ParameterError as error:
        option = OPTIONS.get(error.parameter, error.parameter.replace("_", "-"))
        raise UsageError(f"plan {options.kind}: --{option}{error.problem}") from error


def _module(kind: str) -> Any:
    from importlib import import_module

    return import_module(f"redline.cli.plan.{kind}")
