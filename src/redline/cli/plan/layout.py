"""The layout of a plan on the command line: what is given is fixed, a list restricts, the rest is searched."""

from __future__ import annotations

import argparse

from redline.cli.arguments import positive
from redline.cli.plan.numbers import above_zero, chosen, several, share
from redline.planner.train.training_choices import EXECUTIONS, RECOMPUTES, SCHEDULES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

SIZES = {
    "dp": "data-parallel replicas",
    "tp": "tensor-parallel size",
    "pp": "pipeline stages",
    "cp": "context-parallel size",
    "ep": "expert-parallel size",
    "shard": "devices that ZeRO shards over; fewer than all is HSDP",
    "micro_batch": "sequences per micro-batch",
    "chunks": "model chunks per stage (interleaved pipeline)",
}
ZERO = {"0": 0, "1": 1, "2": 2, "3": 3}


def add_layout(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "the layout: given values are fixed, a list such as 1,2,4 is searched, the rest is free"
    )
    for name, meaning in SIZES.items():
        group.add_argument(f"--{name.replace('_', '-')}", type=several, metavar="N", help=meaning)
    group.add_argument(
        "--zero",
        type=chosen(ZERO),
        metavar="STAGE",
        help="what replicas shard: 0 nothing, 1 optimizer, 2 + gradients, 3 + weights (FSDP)",
    )
    group.add_argument("--schedule", type=chosen(SCHEDULES), metavar="NAME", help=", ".join(SCHEDULES))
    group.add_argument(
        "--recompute", type=chosen(RECOMPUTES), metavar="WHAT", help="none, selective (inside attention) or full"
    )
    group.add_argument(
        "--offload", type=share, metavar="SHARE", help="share of the optimizer states kept in host memory"
    )
    group.add_argument(
        "--sequence-parallel",
        action=argparse.BooleanOptionalAction,
        help="shard norms and residuals over the tensor-parallel devices (default: yes)",
    )
    group.add_argument("--no-flash", action="store_true", help="attention is not fused")
    group.add_argument(
        "--execution",
        type=chosen(EXECUTIONS),
        metavar="HOW",
        help="usual (as the stack's measured runs), compiled, or graphs (CUDA graphs or CUDA code)",
    )
    group.add_argument(
        "--imbalance",
        type=above_zero,
        metavar="FACTOR",
        help="tokens of the busiest GPU's experts over the average (default: 1, balanced)",
    )
    group.add_argument(
        "--lora",
        type=positive,
        metavar="RANK",
        help="train adapters of this rank alone, beside every matrix of a layer",
    )


def layout_of(options: argparse.Namespace) -> Mapping[str, tuple[float, ...]]:
    """Of fields of a layout: the only values to consider."""
    fixed = {name: getattr(options, name) for name in (*SIZES, "zero", "schedule", "recompute", "execution")}
    if options.offload is not None:
        fixed["offload"] = (options.offload,)
    if options.sequence_parallel is not None:
        fixed["sequence_parallel"] = (int(options.sequence_parallel),)
    if options.no_flash:
        fixed["flash"] = (0,)
    if options.imbalance is not None:
        fixed["imbalance"] = (max(1.0, options.imbalance),)
    if options.lora is not None:
        fixed["lora"] = (options.lora,)
    return {name: tuple(map(float, values)) for name, values in fixed.items() if values is not None}
