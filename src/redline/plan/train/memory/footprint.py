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

import numpy as np

from redline.errors import UsageError
from redline.model.model import Column, Model, Number
from redline.model.parameters import LayerParameters, count_parameters, layer_parameters
from redline.plan.train.layout import Layout, PipelineStage, frozen, trained_ends, trained_layer


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
    text = files("redline.plan.train.memory").joinpath("memory.json").read_text(encoding="utf-8")
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


# --- weights, gradients and states ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class States:
    """Bytes that a device holds from step to step; and those of temporaries while the optimizer works."""

    weights: Number
    gradients: Number
    spare: Number
    """Second gradients, where the first ones are added up in other bits."""
    optimizer: Number
    temporaries: Number


DeviceParameters = tuple[Number, Number]
"""Numbers on one device before ZeRO divides them: of all but routed experts, and of these, which have fewer copies."""


def states_of(parameters: DeviceParameters, layout: Layout, foot: Footprint, many: Number) -> States:
    """Of trained parameters, times their bytes.

    Gradients of several micro-batches are added up before they are reduced, once per step: until then ZeRO-2 has to
    hold them whole. ZeRO-3 reduces those of every micro-batch.
    """
    zero, whole, own = np.asarray(layout.zero), parameters[0] + parameters[1], _own(parameters, layout)
    gradients = np.where((zero >= 2) & ~((zero == 2) & (np.asarray(many) > 1)), own, whole)
    updated = np.where(zero >= 1, own, whole)
    weights = np.where(zero >= 3, own, whole) * foot.weight_bytes
    if np.any(foot.resident_weights):
        # FSDP has 32-bit weights in shards whatever it gathers; the gathered ones stay below ZeRO-3.
        resident = (np.asarray(foot.resident_weights) > 0) & (zero < 3) & (zero > 0) & np.asarray(_copies(layout) > 1)
        weights = np.where(resident, whole * foot.gather_bytes + own * foot.weight_bytes, weights)
    return States(
        weights=weights,
        gradients=gradients * foot.gradient_bytes,
        spare=gradients * foot.spare_gradient_bytes if np.any(foot.spare_gradient_bytes) else 0.0,
        optimizer=updated * (foot.master_bytes + foot.moment_bytes) * (1 - layout.offload),
        temporaries=updated * foot.step_bytes if np.any(foot.step_bytes) else 0.0,
    )


def _own(parameters: DeviceParameters, layout: Layout) -> Number:
    """Numbers of the shard of a device, of what ZeRO divides."""
    shard = np.maximum(1.0, np.where(np.asarray(layout.shard) > 0, layout.shard, _copies(layout)))
    dense, experts = parameters
    if not np.any(experts):
        return dense / shard
    # Tensor-parallel devices that do not cut an expert have copies of it.
    expert_shard = np.maximum(1.0, shard / layout.ep * layout.tp / expert_tp(layout))
    return dense / shard + experts / expert_shard


def _copies(layout: Layout) -> Number:
    return layout.dp * layout.cp


def stage_states(model: Model, layout: Layout, stage: PipelineStage, foot: Footprint, many: Number) -> States:
    """Of a stage of a pipeline. Beside adapters there are the weights that they adapt, in the bytes of frozen ones:
    matrices of layers, while the embedding and the head keep 16 bits.
    """
    whole, ends = layer_parameters(model), _ends(model, layout, stage)
    if not np.any(layout.lora):
        return states_of(_parameters(whole, ends, layout, stage), layout, foot, many)
    trained = _parameters(trained_layer(model, layout), trained_ends(layout) * ends, layout, stage)
    states = states_of(trained, layout, foot, many)
    base = _parameters(whole, 0.0, layout, stage)
    held = np.where(np.asarray(layout.zero) >= 3, _own(base, layout), base[0] + base[1])
    still = held * foot.frozen_bytes + ends / layout.tp * foot.gather_bytes
    return replace(states, weights=states.weights + frozen(layout) * still)


def _ends(model: Model, layout: Layout, stage: PipelineStage) -> Number:
    """Numbers of the stage outside the layers. A tied head is a matrix of its own where it stands on another stage
    than the embedding.
    """
    counted = count_parameters(model)
    head = np.where(np.asarray(layout.pp) > 1, model.vocab * model.hidden, counted.head)
    return stage.embedding * (counted.embedding + counted.positions) + stage.head * head + counted.other


def _parameters(layer: LayerParameters, ends: Number, layout: Layout, stage: PipelineStage) -> DeviceParameters:
    """On one device of the stage: tensor parallelism divides nearly all."""
    dense = stage.layers * ((layer.attention + layer.dense + layer.shared) / layout.tp + layer.whole)
    experts = stage.layers * layer.experts / (layout.ep * expert_tp(layout))
    return dense + ends / layout.tp, experts


def expert_tp(layout: Layout) -> Number:
    """Into how many parts an expert is cut."""
    return np.where(np.asarray(layout.expert_tp) > 0, layout.expert_tp, layout.tp)


# --- probability of running out ---------------------------------------------------------------------------------------
# Both are measured, not assumed: see `measured` and `unmeasured` in `memory.json`. The chance is a normal curve over
# the logarithm of the predicted peak over the device's memory. It covers what a prediction misses and what nobody
# predicts, such as an allocator that fragments.


Constants = Mapping[str, Any]


def oom_probability(peak_bytes: Number, device_bytes: Number, stack: str, constants: Constants | None = None) -> Column:
    """Of a job with this predicted peak, on a device with this published memory.

    The only failures with all their layouts are those of one stack, so that all measured stacks share its curve. Stacks
    that only their code is known of have curves of their own where layouts of theirs ran: these bound what the code
    leaves open. All others share one that is flatter, and begins earlier.
    """
    curve = _curve(stack, constants or memory_constants())
    ratio = np.asarray(peak_bytes, np.float64) / device_bytes
    return _normal(np.log(np.maximum(ratio, 1e-9) / curve["middle"]) / curve["deviation"])


def peak_interval(peak_bytes: Number, stack: str, constants: Constants | None = None) -> tuple[Column, Column]:
    """The 80 % interval."""
    spread = _spread(stack, constants or memory_constants())
    peak = np.asarray(peak_bytes, np.float64)
    return peak * spread["low"], peak * spread["high"]


def _curve(stack: str, constants: Constants) -> dict[str, float]:
    own = constants["stacks"].get(stack, {})
    curve: dict[str, float] = own if "middle" in own else constants["measured" if own.get("fitted") else "unmeasured"]
    return curve


def _spread(stack: str, constants: Constants) -> dict[str, float]:
    own = constants["stacks"].get(stack, {})
    spread: dict[str, float] = own if "low" in own else constants["measured" if own.get("fitted") else "unmeasured"]
    return spread


def _normal(deviations: Column) -> Column:
    """The normal distribution, by a logistic curve that is off by 0.0002 at most and needs no table."""
    curve: Column = 1.0 / (1.0 + np.exp(-np.clip(1.5976 * deviations + 0.070566 * deviations**3, -50.0, 50.0)))
    return curve
