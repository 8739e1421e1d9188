"""The whole job of a plan on the command line: tokens, price, failures, recovery."""

from __future__ import annotations

from redline.cli.arguments import size_bytes
from redline.cli.plan.numbers import above_zero, count

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def add_job(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the whole job")
    group.add_argument(
        "--tokens",
        type=count,
        metavar="COUNT",
        help="tokens (or samples) to train on, such as 15T: adds days, money, goodput",
    )
    group.add_argument("--price", type=above_zero, metavar="AMOUNT", help="price per GPU-hour, in any currency")
    group.add_argument(
        "--failures",
        metavar="RATE|NAME",
        help="failures per node and day, or those of a published cluster such as llama-3 (default: a "
        "range of published rates)",
    )
    group.add_argument(
        "--recovery",
        metavar="NAME|RESTART,SAVE",
        help="manual, automatic, asynchronous or standby; or seconds to restart and to save a checkpoint",
    )
    group.add_argument(
        "--storage",
        type=size_bytes,
        metavar="SIZE",
        help="storage bandwidth per second, such as 100GB: sets the time of a checkpoint",
    )
    group.add_argument(
        "--pue", type=above_zero, metavar="RATIO", help="power usage effectiveness of the data centre (default: 1)"
    )
