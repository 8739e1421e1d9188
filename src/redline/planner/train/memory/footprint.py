"""What number formats and software stacks make of memory: bytes per parameter, per activation and per logit.

All constants are in `memory.json`, which says where each comes from. A footprint belongs to a software stack and a
number format, never to a single run.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from redline.errors import UsageError
from redline.model.model import Number


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """Numbers, or columns of numbers: one row per layout."""

    # Per trained parameter. 16 bytes by the book: bf16 weights and gradients, fp32 master copy and two moments.
    weight_bytes: Number = 2.0
    gradient_bytes: Number = 2.0
    """Held until the optimizer's step, by every device until ZeRO-2 divides them."""
    spare_gradient_bytes: Number = 0.0
    """Of a second gradient: stacks that add 16-bit gradients into 32-bit ones hold both."""
    cleared_gradients: Number = 0.0
    """1: those of the step before are freed before the forward pass, so that none is there when the backward pass of
    the first micro-batch begins."""
    master_bytes: Number = 4.0
    moment_bytes: Number = 8.0
    step_bytes: Number = 0.0
    """Temporaries of the optimizer's step, per parameter that a device updates."""
    gather_bytes: Number = 2.0
    """Of a weight that ZeRO-3 puts together for a moment."""
    cast_bytes: Number = 0.0
    """Of a weight that autocast casts in the forward pass, and keeps for the backward pass."""
    frozen_bytes: Number = 2.0
    """Per parameter that is not trained: about half a byte with 4-bit weights."""

    # Activations: how the stack runs a layer, and what it keeps beyond what operators need.
    activation_bytes: Number = 2.0
    residual_bytes: Number = 0.0
    """Per number of the residual stream; 0: as many as of any activation."""
    dropout: Number = 0.0
    mask_bytes: Number = 1.0
    """Per number that dropout passes through."""
    fused_norm: Number = 1.0
    fused_gate: Number = 1.0
    compiled: Number = 0.0
    """1: layers are compiled, whose backward pass makes results of norms and of a gate anew instead of keeping them."""
    extra_hidden: Number = 0.0
    """Further numbers of the hidden width per token and layer, divided by tensor parallelism: copies before and after
    rotation."""
    split_hidden: Number = 0.0
    """The same, only where tensor parallelism divides the layer: results before and after its collectives."""
    extra_ffn: Number = 0.0
    """Further numbers of the feed-forward width: an activation function written in several operators."""
    passing_hidden: Number = 0.0
    """Numbers of the hidden width per token that live for a moment, whole: what tensor parallelism gathers."""
    passing_alone: Number = 0.0
    """The same, further ones without a pipeline."""
    selective: Number = 1.0
    """Share of activations that selective recomputation keeps where attention is fused and has no scores to drop. At 1
    it saves nothing, and is not proposed."""
    by_operator: Number = 0.0
    """1: selective recomputation goes by operators, and keeps fused attention and every second matmul."""
    logit_bytes: Number = 14.0
    """Per logit: 16 bits, 32 bits, their logarithmic softmax and its gradient. One fused kernel: 4."""
    last_logit_bytes: Number = 0.0
    """Per logit of the micro-batch before, where a stack's loop still holds its result."""

    # Beyond what a job asks for.
    workspace_bytes: Number = 0.0
    """Of libraries, inside the allocator."""
    slack: Number = 0.05
    """What the allocator holds beyond what is in use, as a share of it."""
    context_bytes: Number = 0.5e9
    """Outside the allocator: kernels and library handles."""
    communicator_bytes: Number = 0.4e9
    """Outside the allocator, of each group of devices that communicates."""

    resident_weights: Number = 0.0
    """1: below ZeRO-3 a device holds 16-bit weights beside its shard of 32-bit ones: FSDP that does not shard them
    again after the forward pass."""

    # The pipeline.
    head_weighs: Number = 0.0
    """1: stages are cut by FLOPs, where the head counts as the layers it costs as much as. 0: by number of layers."""
    least_micro_batches: Number = 0.0
    """1: the stack refuses a pipeline of more stages than micro-batches and one."""


@cache
def memory_constants() -> MappingProxyType[str, Any]:
    """The file, as it is."""
    text = files("redline.planner.train.memory").joinpath("memory.json").read_text(encoding="utf-8")
    return MappingProxyType(json.loads(text))


def stacks() -> tuple[str, ...]:
    """The software stacks whose memory is known."""
    return tuple(memory_constants()["stacks"])


@cache
def footprint(stack: str, precision: str = "bf16", *, fitted: bool = True) -> Footprint:
    """Of a software stack and a number format. A stack that nobody has measured is taken for the book's.

    Not fitted, it is what the stack's source code tells, as if none of its runs had been measured.
    """
    return footprint_of(memory_constants(), stack, precision, fitted=fitted)


def footprint_of(constants: Mapping[str, Any], stack: str, precision: str, *, fitted: bool = True) -> Footprint:
    """The same, of constants that were fitted to other rows than those of the package."""
    formats = constants["formats"]
    if precision not in formats:
        known = ", ".join(sorted(formats))
        raise UsageError(f"No memory footprint of the number format {precision!r} is known. Known are: {known}.")
    own = constants["stacks"].get(stack, {"known": {}, "fitted": {}})
    return replace(Footprint(), **{**formats[precision], **own["known"], **(own["fitted"] if fitted else {})})


def changed(foot: Footprint, given: Mapping[str, float]) -> Footprint:
    """With these numbers in the place of its own: software that nobody has measured."""
    known = [field.name for field in fields(Footprint)]
    unknown = [name for name in given if name not in known]
    if unknown:
        raise UsageError(f"there is no {unknown[0]!r} in a footprint\nthere are: {', '.join(known)}")
    return replace(foot, **given) if given else foot
