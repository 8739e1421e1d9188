"""Memory of a step at its peak, by what it holds: parts by their lifetime, at the fullest moment of the fullest device.

Three moments can be the peak. When the backward pass begins: states, gradients, all activations in flight, the logits,
and what passes through. When the logits are gone and the first layer is computed again: the same with that layer in the
place of the logits. In the optimizer's step: states, gradients and its temporaries, but no activations.
Two devices can be the fullest: see `stages`.
"""

from dataclasses import dataclass, fields, replace
from functools import reduce
from math import prod

import numpy as np
from numpy.typing import NDArray

from redline.model.activations import Practice, bytes_kept, layer_activations, saved_by_operator
from redline.model.model import CountedModule, Model, Number
from redline.model.parameters import layer_parameters
from redline.plan.train.layout import (
    Batch,
    Layout,
    PipelineStage,
    first_stage,
    head_layers,
    memory_stages,
    micro_batches,
)
from redline.plan.train.memory.footprint import (
    Footprint,
    States,
    expert_tp,
    footprint,
    stage_states,
    states_of,
)
from redline.plan.train.step_cost import MemoryUse
from redline.plan.train.training_choices import Recompute

# --- layouts that no amount of memory makes run -----------------------------------------------------------------------


Mask = NDArray[np.bool_]
# Blocks after the last layer that a stage may consist of: norm with head, conversion of logits, loss.
TAIL_BLOCKS = 3


def runnable(model: Model, batch: Batch, layout: Layout, foot: Footprint) -> Mask:
    """True where every rule holds."""
    rules = (
        np.asarray(model.heads % layout.tp == 0),
        np.asarray((model.kv_heads % layout.tp == 0) | (layout.tp % model.kv_heads == 0)),
        np.asarray(layout.dp * layout.micro_batch <= batch.sequences),
        _enough_micro_batches(batch, layout, foot),
        every_stage_works(model, layout, foot.head_weighs),
    )
    held: Mask = np.logical_and.reduce(np.broadcast_arrays(*rules))
    return held


def _enough_micro_batches(batch: Batch, layout: Layout, foot: Footprint) -> Mask:
    """Some stacks refuse a 1F1B schedule whose warm-up has fewer micro-batches than stages before the last."""
    refused = (np.asarray(foot.least_micro_batches) > 0) & (micro_batches(batch, layout) < layout.pp - 1)
    return np.asarray(~refused)


def every_stage_works(model: Model, layout: Layout, head_weighs: Number) -> Mask:
    """Cut by layers: not more stages than layers. Cut by FLOPs, a stage ends with the block that exceeds its share, and
    a block ends at most one stage. The layers end as many stages as there are shares below them, at most one per
    layer; the blocks of the tail are then spread over what is left, and stages beyond stay empty.
    """
    pp = np.asarray(layout.pp, np.float64)
    share = (model.layers + head_layers(model)) / pp
    ended = np.minimum(model.layers, np.ceil(model.layers / share) - 1)
    weighed = (pp == 1) | (pp <= ended + TAIL_BLOCKS)
    works: Mask = np.where(np.asarray(head_weighs) > 0, weighed, pp <= model.layers)
    return works


def memory_use(model: Model, batch: Batch, layout: Layout, stack: str | Footprint) -> MemoryUse:
    foot = footprint(stack) if isinstance(stack, str) else stack
    anywhere = _on_any_stage(model, batch, layout, foot)
    many = micro_batches(batch, layout)
    stages = memory_stages(model, batch, layout, foot.head_weighs)
    return reduce(_larger, (_stage_memory(model, layout, foot, anywhere, stage, many) for stage in stages))


def first_stage_memory(model: Model, batch: Batch, layout: Layout, foot: Footprint) -> MemoryUse:
    """The first stage alone: what stacks measure that log rank 0."""
    stage = first_stage(model, batch, layout, foot.head_weighs)
    anywhere = _on_any_stage(model, batch, layout, foot)
    return _stage_memory(model, layout, foot, anywhere, stage, micro_batches(batch, layout))


@dataclass(frozen=True)
class _Anywhere:
    """Bytes that are the same on every stage."""

    layer: Number
    """Activations of a micro-batch in one layer."""
    passing: Number
    """What lives for a moment: gathered tensors."""
    again: Number
    """The layer that is computed again."""
    head: Number
    tail: Number
    """Activations after the last layer: what goes into the last norm and into the head."""
    gathers: Number
    head_gathers: Number
    layer_casts: Number
    head_casts: Number


def _on_any_stage(model: Model, batch: Batch, layout: Layout, foot: Footprint) -> _Anywhere:
    tokens = batch.sequence / layout.cp * layout.micro_batch
    kept, whole = layer_bytes(model, batch, layout, foot)
    numbers, head_numbers = _layer_numbers(model, layout), model.vocab * model.hidden / layout.tp
    return _Anywhere(
        layer=tokens * kept,
        passing=tokens * _passing(model, layout, foot),
        again=tokens * whole,
        head=head_bytes(model, batch, layout, foot),
        tail=tokens * _tail(model, layout, foot),
        gathers=gathered_bytes(numbers, layout, foot),
        head_gathers=_head_gathers(head_numbers, layout, foot),
        layer_casts=numbers * foot.cast_bytes,
        head_casts=head_numbers * foot.cast_bytes,
    )


def _stage_memory(
    model: Model, layout: Layout, foot: Footprint, anywhere: _Anywhere, stage: PipelineStage, many: Number
) -> MemoryUse:
    states = stage_states(model, layout, stage, foot, many)
    is_full = np.asarray(layout.recompute) == Recompute.FULL
    casts = stage.layers * anywhere.layer_casts
    in_flight = stage.in_flight * (stage.layers * anywhere.layer + stage.head * anywhere.tail)
    lasting_casts = stage.head * anywhere.head_casts + np.where(is_full, 0.0, casts)
    if np.any(states.spare):
        # What goes while a micro-batch's gradients come.
        freed = stage.layers * anywhere.layer + stage.head * anywhere.head
        states = replace(states, gradients=states.gradients + _spare(states.spare, freed, layout))
    return at_the_peak(
        states,
        layout,
        foot,
        kept=in_flight + anywhere.passing + lasting_casts,
        # Autocast holds its casts until the forward pass is over, also of layers that are computed again.
        again=np.where(is_full, np.maximum(anywhere.again + anywhere.layer_casts, casts), 0.0),
        head=stage.head * anywhere.head,
        gathers=anywhere.gathers + stage.head * anywhere.head_gathers,
        has_gradients=gradients_stay(layout, foot, many, stage.in_flight),
    )


def _spare(spare: Number, freed: Number, layout: Layout) -> Number:
    """Of second gradients, at the peak. Copies reduce them from buckets that stay. One copy alone has them for a
    moment: none as a backward pass begins, all at its end, when the activations of its micro-batch are gone.
    """
    alone = np.asarray(layout.dp * layout.cp) <= 1
    return np.where(alone, np.maximum(spare - freed, 0.0), spare)


def gradients_stay(layout: Layout, foot: Footprint, many: Number, in_flight: Number = 1.0) -> Number:
    """1 where gradients are there when activations are at their most: a micro-batch leaves them to those after it. Of
    a pipeline that runs all forward passes before the first backward pass, none is there yet; then a gradient comes
    as activations of its layer go. What ZeRO-2 holds whole does not outlive its reduction, whatever the stack.
    """
    cleared = (np.asarray(foot.cleared_gradients) > 0) | (np.asarray(layout.zero) == 2)
    return np.where(cleared & (np.asarray(many) <= in_flight), 0.0, 1.0)


def at_the_peak(
    states: States,
    layout: Layout,
    foot: Footprint,
    *,
    kept: Number,
    again: Number,
    head: Number,
    gathers: Number,
    has_gradients: Number,
) -> MemoryUse:
    """The largest of the three moments, with what the allocator and the communicators add.

    Bytes beside the states while a backward pass begins are activations that wait for it, the layer that is computed
    again first, once the logits are gone, the head, and gathers. Without gradients, those of the step before are freed,
    and none is made yet.
    """
    is_loss = np.asarray(head) >= np.asarray(again)
    activations = kept + np.where(is_loss, 0.0, again)
    head = np.where(is_loss, head, 0.0)
    early = states.gradients * has_gradients
    is_backward = np.asarray(early + activations + head + gathers) >= np.asarray(states.gradients + states.temporaries)
    gradients = np.where(is_backward, early, states.gradients)
    activations = np.where(is_backward, activations, 0.0)
    head = np.where(is_backward, head, 0.0)
    gathers = np.where(is_backward, gathers, 0.0)
    temporaries = foot.workspace_bytes + np.where(is_backward, 0.0, states.temporaries)
    in_use = states.weights + gradients + states.optimizer + activations + head + gathers + temporaries
    parts = {
        "weights_bytes": states.weights,
        "gradients_bytes": gradients,
        "optimizer_bytes": states.optimizer,
        "activations_bytes": activations,
        "head_bytes": head,
        "gathers_bytes": gathers,
        "temporaries_bytes": temporaries,
        "communicators_bytes": _communicators(layout, foot),
        "allocator_bytes": in_use * foot.slack,
    }
    columns = (np.asarray(part, np.float64) for part in np.broadcast_arrays(*parts.values()))
    return MemoryUse(**dict(zip(parts, columns, strict=True)))


def layer_bytes(model: Model, batch: Batch, layout: Layout, foot: Footprint) -> tuple[Number, Number]:
    """What the forward pass of an average layer leaves for the backward pass, per token: with the recomputation of the
    layout, and without. Copies that the stack adds are divided and dropped as the inside of the layer is.
    """
    practice = Practice(
        number_bytes=foot.activation_bytes,
        flash=layout.flash,
        dropout=foot.dropout,
        mask_bytes=foot.mask_bytes,
        residual_bytes=foot.residual_bytes,
        fused_norm=foot.fused_norm,
        fused_gate=foot.fused_gate,
        product_again=foot.compiled,
        norm_again=foot.compiled,
    )
    activations = layer_activations(model, batch.sequence, practice)
    split = {"tp": layout.tp, "sequence_parallel": layout.sequence_parallel, "expert_tp": expert_tp(layout)}
    hidden = foot.extra_hidden + np.where(np.asarray(layout.tp) > 1, foot.split_hidden, 0.0)
    extra = hidden * model.hidden + foot.extra_ffn * model.ffn * model.dense_layers / model.layers
    copies = extra * foot.activation_bytes / layout.tp
    whole = bytes_kept(activations, **split) / model.layers + copies
    least = bytes_kept(activations, **split, recompute=Recompute.FULL) / model.layers
    without_scores = bytes_kept(activations, **split, recompute=Recompute.SELECTIVE) / model.layers + copies
    some = np.where(np.asarray(layout.flash) > 0, foot.selective, 1.0) * without_scores
    if np.any(foot.by_operator):
        chosen = bytes_kept(saved_by_operator(model, batch.sequence, practice), **split) / model.layers
        some = np.where(np.asarray(foot.by_operator) > 0, chosen, some)
    recompute = np.asarray(layout.recompute)
    return np.where(recompute == Recompute.FULL, least, np.where(recompute == Recompute.SELECTIVE, some, whole)), whole


def _tail(model: Model, layout: Layout, foot: Footprint) -> Number:
    """Per token: the input of the last norm, which is of the residual stream, and that of the head."""
    residual = np.where(np.asarray(foot.residual_bytes) > 0, foot.residual_bytes, foot.activation_bytes)
    split = np.where(np.asarray(layout.sequence_parallel) > 0, layout.tp, 1)
    return (residual + foot.activation_bytes) * model.hidden / split


def _passing(model: Model, layout: Layout, foot: Footprint) -> Number:
    """Per token: whole tensors that tensor parallelism gathers for a moment."""
    alone = np.where(np.asarray(layout.pp) == 1, foot.passing_alone, 0.0)
    split = np.asarray(layout.tp) > 1
    return np.where(split, (foot.passing_hidden + alone) * model.hidden * foot.activation_bytes, 0.0)


def head_bytes(model: Model, batch: Batch, layout: Layout, foot: Footprint) -> Number:
    """Logits of a micro-batch, divided by tensor parallelism, in every form that exists when the loss is taken."""
    logits = batch.sequence / layout.cp * layout.micro_batch * model.vocab / layout.tp
    several = micro_batches(batch, layout) > 1
    return logits * (foot.logit_bytes + np.where(several, foot.last_logit_bytes, 0.0))


def _layer_numbers(model: Model, layout: Layout) -> Number:
    """Parameters of an average layer on one device, before ZeRO."""
    layer = layer_parameters(model)
    return (layer.total - layer.experts) / layout.tp + layer.experts / (layout.ep * expert_tp(layout))


def gathered_bytes(numbers: Number, layout: Layout, foot: Footprint) -> Number:
    """ZeRO-3: the layer at work and the next one, and the whole gradient of one before it is scattered."""
    gathered = np.asarray(layout.zero) >= 3
    return np.where(gathered, numbers * (2 * foot.gather_bytes + foot.gradient_bytes), 0.0)


def _head_gathers(numbers: Number, layout: Layout, foot: Footprint) -> Number:
    """The head, whole while the loss is computed, and its gradient. FSDP keeps it from the forward to the backward
    pass, and a tied one is needed until the end of that."""
    gathered = np.asarray(layout.zero) >= 3
    return np.where(gathered, numbers * (foot.gather_bytes + foot.gradient_bytes), 0.0)


def _communicators(layout: Layout, foot: Footprint) -> Number:
    groups = sum(1.0 * (np.asarray(size) > 1) for size in (layout.dp * layout.cp, layout.tp, layout.pp, layout.ep))
    return np.asarray(foot.context_bytes + groups * foot.communicator_bytes, np.float64)


def _larger(first: MemoryUse, other: MemoryUse) -> MemoryUse:
    """Row by row, the one with the higher peak."""
    more = first.peak_bytes >= other.peak_bytes
    names = [field.name for field in fields(MemoryUse)]
    return MemoryUse(**{name: np.where(more, getattr(first, name), getattr(other, name)) for name in names})


# --- modules of a user's own ------------------------------------------------------------------------------------------


def module_memory(module: CountedModule, batch: Batch, layout: Layout, foot: Footprint) -> MemoryUse:
    """What is not trained has weights and no other states. There are logits where the user put the loss into the
    module; then stacks hold them in several forms for a moment, as those of any model.
    """
    many = micro_batches(batch, layout)
    weights = states_of((float(module.parameters), 0.0), layout, foot, many).weights
    trained = states_of((float(module.trained_parameters), 0.0), layout, foot, many)
    states = replace(trained, weights=weights, gradients=trained.gradients + trained.spare)
    kept, again = _activations(module, layout, foot)
    return at_the_peak(
        states,
        layout,
        foot,
        kept=kept,
        again=again,
        head=_logits(module) * foot.logit_bytes * layout.micro_batch / module.samples,
        gathers=gathered_bytes(module.parameters / module.blocks, layout, foot),
        has_gradients=gradients_stay(layout, foot, many),
    )


def _activations(module: CountedModule, layout: Layout, foot: Footprint) -> tuple[Number, Number]:
    """All that is kept, without logits; or with recomputation what goes into blocks and what is kept outside them, and
    beside that the block that is computed again. Blocks that are hardly larger than what goes into them are kept.
    """
    every = module.kept_bytes - _logits(module) * module.number_bytes
    outside = every - module.blocks_kept_bytes + module.block_inputs_bytes
    pays = (np.asarray(layout.recompute) == Recompute.FULL) & (outside + module.largest_block_bytes < every)
    scale = foot.activation_bytes / module.number_bytes * layout.micro_batch / module.samples
    return np.where(pays, outside, every) * scale, np.where(pays, module.largest_block_bytes, 0) * scale


def _logits(module: CountedModule) -> int:
    """Numbers that the loss takes, of all samples of the example."""
    losses = [operator for operator in module.operators if operator.name == "_log_softmax" and not operator.backward]
    return sum(loss.calls * prod(loss.shapes[0]) for loss in losses)
