"""`redline lake ask` on the command line."""

from __future__ import annotations

import argparse

from redline.cli.arguments import add_language, add_one_output, language, positive, refuse_unknown_format
from redline.cli.lake import add_lake
from redline.cli.output import deliver, for_stdout, point_to, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

FORMATS: Mapping[str, str] = {".csv": "csv", ".html": "html", ".json": "json", ".txt": "text"}
QUESTIONS = {
    "accounts": "GPU hours by account",
    "teams": "GPU hours lost by team; the same for models, clusters, devices",
    "models": "",
    "clusters": "",
    "devices": "",
    "jobs": "jobs that lose most",
    "nodes": "nodes late across jobs, tested against chance",
    "waits": "why ranks were late",
    "changes": "what changed since last week",
    "like": "jobs like --job",
    "findings": "findings worth most, in money with --price",
    "operators": "operators furthest above their roof",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    known = ", ".join(f"{name} ({about})" if about else name for name, about in QUESTIONS.items())
    parser.add_argument("question", nargs="?", metavar="QUESTION", help=f"one of: {known}")
    add_lake(parser)
    parser.add_argument("--sql", metavar="SELECT", help="SQL instead of a question, such as 'SELECT * FROM digests'")
    parser.add_argument("--days", type=positive, metavar="N", help="only the last N days of the lake")
    parser.add_argument("--top", type=positive, metavar="N", default=10, help="rows of a question (default: 10)")
    parser.add_argument("--job", metavar="NAME", help="of the question like")
    parser.add_argument("--price", type=_price, metavar="PRICE", help="of a GPU hour, in any currency")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    add_one_output(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="no remarks")
    add_language(parser)


def _price(text: str) -> float:
    try:
        price = float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a price") from error
    if not 0 < price < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a price above 0")
    return price


def run(options: argparse.Namespace) -> int:
    from pathlib import Path

    from redline.report.language import speaking
    from redline.verbs.lake import ask_lake

    refuse_unknown_format("lake ask", options.output, tuple(FORMATS))
    spoken = language(options)
    result = ask_lake(
        options.lake,
        options.question,
        sql=options.sql,
        job=options.job,
        price=options.price,
        days=options.days,
        top=options.top,
    )
    form = "json" if options.json else FORMATS.get(Path(options.output or "").suffix, "text")
    with speaking(spoken), for_stdout(options.output if form == "text" else form):
        text = result.rendered(form)
    deliver(text, options.output, force=options.force)
    if form == "html" and not options.quiet:
        point_to(f"open {quoted([options.output])} in a browser")
    return 0
