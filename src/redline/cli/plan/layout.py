"""The layout of a plan on the command line: what is given is fixed, a list restricts, the rest is searched."""

from __future__ import annotations

import argparse

from redline.cli.plan.numbers import chosen, several, share
from redline.planner.train.training_choices import RECOMPUTES, SCHEDULES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

SIZES = {
    "dp": "copies that share the batch (data parallel)",
    "tp": "devices that share each matrix (tensor parallel)",
    "pp": "stages of a pipeline",
    "cp": "devices that share each sequence (context parallel)",
    "ep": "devices that share the experts of a layer",
    "shard": "devices that ZeRO splits over; fewer than all is HSDP",
    "micro_batch": "sequences of a micro-batch",
    "chunks": "pieces of layers per stage (interleaved pipeline)",
}
ZERO = {"0": 0, "1": 1, "2": 2, "3": 3}


def add_layout(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the layout: what is given is fixed, 1,2,4 allows these, the rest is searched")
    for name, meaning in SIZES.items():
        group.add_argument(f"--{name.replace('_', '-')}", type=several, metavar="N", help=meaning)
    group.add_argument(
        "--zero",
        type=chosen(ZERO),
        metavar="STAGE",
        help="what copies split: 0 nothing, 1 optimizer, 2 and gradients, 3 and weights (FSDP)",
    )
    group.add_argument("--schedule", type=chosen(SCHEDULES), metavar="NAME", help=", ".join(SCHEDULES))
    group.add_argument(
        "--recompute", type=chosen(RECOMPUTES), metavar="WHAT", help="none, selective (inside attention) or full"
    )
    group.add_argument("--offload", type=share, metavar="SHARE", help="of the optimizer states, in host memory")
    group.add_argument(
        "--sequence-parallel",
        action=argparse.BooleanOptionalAction,
        help="split norms and residuals over the tensor-parallel devices (default: yes)",
    )
    group.add_argument("--no-flash", action="store_true", help="attention is not fused")


def layout_of(options: argparse.Namespace) -> Mapping[str, tuple[float, ...]]:
    """Of fields of a layout: the only values to consider."""
    fixed = {name: getattr(options, name) for name in (*SIZES, "zero", "schedule", "recompute")}
    if options.offload is not None:
        fixed["offload"] = (options.offload,)
    if options.sequence_parallel is not None:
        fixed["sequence_parallel"] = (int(options.sequence_parallel),)
    if options.no_flash:
        fixed["flash"] = (0,)
    return {name: tuple(map(float, values)) for name, values in fixed.items() if values is not None}
