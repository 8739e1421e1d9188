"""Memory of a step at its peak, by what it holds: parts by their lifetime, at the fullest moment of the fullest device.

Three moments can be the peak. When the backward pass begins: states, gradients, all activations in flight, the logits,
and what passes through. When the logits are gone and the first layer is computed again: the same with that layer in the
place of the logits. In the optimizer's step: states, gradients and its temporaries, but no activations.
Two devices can be the fullest: see `stages`.
"""

from dataclasses import dataclass, fields

import numpy as np

from redline.model.activations import Practice, bytes_kept, layer_activations
from redline.model.model import Model, Number
from redline.model.parameters import count_parameters, layer_parameters
from redline.planner.train.layout import Batch, Layout
from redline.planner.train.memory.footprint import Footprint, footprint
from redline.planner.train.stages import PipelineStage, first_stage, last_stage, micro_batches
from redline.planner.train.step_cost import MemoryUse
from redline.planner.train.trained import frozen
from redline.planner.train.training_choices import Recompute

# Share of parameters that adapters add and train (LoRA of rank 8 on all matrices: 0.3 %).
ADAPTERS = 0.003


def memory_use(model: Model, batch: Batch, layout: Layout, stack: str | Footprint) -> MemoryUse:
    """On the fullest device."""
    foot = footprint(stack) if isinstance(stack, str) else stack
    anywhere = _on_any_stage(model, batch, layout, foot)
    first = first_stage(model, batch, layout, foot.head_weighs)
    last = last_stage(model, batch, layout, foot.head_weighs)
    many = micro_batches(batch, layout)
    return _larger(*(_stage_memory(model, layout, foot, anywhere, stage, many) for stage in (first, last)))


def first_stage_memory(model: Model, batch: Batch, layout: Layout, foot: Footprint) -> MemoryUse:
    """On the first stage alone: what stacks measure that log rank 0."""
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
    states = states_of(*_parameters(model, layout, stage), layout, foot, many)
    is_full = np.asarray(layout.recompute) == Recompute.FULL
    casts = stage.layers * anywhere.layer_casts
    in_flight = stage.in_flight * (stage.layers * anywhere.layer + stage.head * anywhere.tail)
    lasting_casts = stage.head * anywhere.head_casts + np.where(is_full, 0.0, casts)
    backward = BackwardPass(
        kept=in_flight + anywhere.passing + lasting_casts,
        # Autocast holds its casts until the forward pass is over, also of layers that are computed again.
        again=np.where(is_full, np.maximum(anywhere.again + anywhere.layer_casts, casts), 0.0),
        head=stage.head * anywhere.head,
        gathers=anywhere.gathers + stage.head * anywhere.head_gathers,
        has_gradients=gradients_stay(foot, many),
    )
    return at_the_peak(states, backward, layout, foot)


def gradients_stay(foot: Footprint, many: Number) -> Number:
    """1 where gradients are there when a backward pass begins: the first micro-batch leaves them to the second."""
    return np.where((np.asarray(foot.cleared_gradients) > 0) & (np.asarray(many) <= 1), 0.0, 1.0)


@dataclass(frozen=True)
class States:
    """Bytes that a device holds from step to step; and those of temporaries while the optimizer works."""

    weights: Number
    gradients: Number
    optimizer: Number
    temporaries: Number


@dataclass(frozen=True)
class BackwardPass:
    """Bytes beside the states while a backward pass begins."""

    kept: Number
    """Activations that wait for it."""
    again: Number
    """The layer that is computed again first, once the logits are gone."""
    head: Number
    gathers: Number
    has_gradients: Number
    """0: the gradients of the step before are freed, and none is made yet."""


def at_the_peak(states: States, backward: BackwardPass, layout: Layout, foot: Footprint) -> MemoryUse:
    """The largest of the three moments, with what the allocator and the communicators add."""
    is_loss = np.asarray(backward.head) >= np.asarray(backward.again)
    activations = backward.kept + np.where(is_loss, 0.0, backward.again)
    head = np.where(is_loss, backward.head, 0.0)
    early = states.gradients * backward.has_gradients
    is_backward = np.asarray(early + activations + head + backward.gathers) >= np.asarray(
        states.gradients + states.temporaries
    )
    gradients = np.where(is_backward, early, states.gradients)
    activations = np.where(is_backward, activations, 0.0)
    head = np.where(is_backward, head, 0.0)
    gathers = np.where(is_backward, backward.gathers, 0.0)
    temporaries = foot.workspace_bytes + np.where(is_backward, 0.0, states.temporaries)
    in_use = states.weights + gradients + states.optimizer + activations + head + gathers + temporaries
    parts = np.broadcast_arrays(
        states.weights,
        gradients,
        states.optimizer,
        activations,
        head,
        gathers,
        temporaries,
        _communicators(layout, foot),
        in_use * foot.slack,
    )
    columns = [np.asarray(part, np.float64) for part in parts]
    return MemoryUse(
        weights_bytes=columns[0],
        gradients_bytes=columns[1],
        optimizer_bytes=columns[2],
        activations_bytes=columns[3],
        head_bytes=columns[4],
        gathers_bytes=columns[5],
        temporaries_bytes=columns[6],
        communicators_bytes=columns[7],
        allocator_bytes=columns[8],
    )


def states_of(dense: Number, experts: Number, layout: Layout, foot: Footprint, many: Number) -> States:
    """Parameters of a device, times their bytes, divided as ZeRO says. Experts have fewer copies to divide over.

    Gradients of several micro-batches are added up before they are reduced, once per step: until then ZeRO-2 has to
    hold them whole. ZeRO-3 reduces those of every micro-batch.
    """
    copies = layout.dp * layout.cp
    shard = np.maximum(1.0, np.where(np.asarray(layout.shard) > 0, layout.shard, copies))
    expert_shard = np.maximum(1.0, shard / layout.ep)
    zero = np.asarray(layout.zero)
    waits = (zero == 2) & (np.asarray(many) > 1)

    def held(level: int) -> Number:
        """Numbers that stay on a device, of what this level of ZeRO divides."""
        divided = zero >= level
        return dense / np.where(divided, shard, 1.0) + experts / np.where(divided, expert_shard, 1.0)

    trained = 1 - frozen(layout) * (1 - ADAPTERS)
    weights = trained * foot.weight_bytes + (1 - trained) * foot.frozen_bytes
    return States(
        weights=held(3) * weights,
        gradients=np.where(waits, dense + experts, held(2))
        * trained
        * (foot.gradient_bytes + foot.spare_gradient_bytes),
        optimizer=held(1) * trained * (foot.master_bytes + foot.moment_bytes) * (1 - layout.offload),
        temporaries=held(1) * trained * foot.step_bytes,
    )


def _parameters(model: Model, layout: Layout, stage: PipelineStage) -> tuple[Number, Number]:
    """On one device of the stage before ZeRO: routed experts, and all others, which tensor parallelism divides.

    A tied head is a matrix of its own where it stands on another stage than the embedding.
    """
    layer, counted = layer_parameters(model), count_parameters(model)
    head = np.where(np.asarray(layout.pp) > 1, model.vocab * model.hidden, counted.head)
    ends = stage.embedding * (counted.embedding + counted.positions) + stage.head * head
    dense = stage.layers * ((layer.attention + layer.dense + layer.shared) / layout.tp + layer.whole)
    experts = stage.layers * layer.experts / (layout.ep * _expert_tp(layout))
    return dense + (ends + counted.other) / layout.tp, experts


def _expert_tp(layout: Layout) -> Number:
    return np.where(np.asarray(layout.expert_tp) > 0, layout.expert_tp, layout.tp)


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
    )
    activations = layer_activations(model, batch.sequence, practice)
    split = {"tp": layout.tp, "sequence_parallel": layout.sequence_parallel, "expert_tp": _expert_tp(layout)}
    hidden = foot.extra_hidden + np.where(np.asarray(layout.tp) > 1, foot.split_hidden, 0.0)
    extra = hidden * model.hidden + foot.extra_ffn * model.ffn * model.dense_layers / model.layers
    copies = extra * foot.activation_bytes / layout.tp
    whole = bytes_kept(activations, **split) / model.layers + copies
    least = bytes_kept(activations, **split, recompute=Recompute.FULL) / model.layers
    without_scores = bytes_kept(activations, **split, recompute=Recompute.SELECTIVE) / model.layers + copies
    some = without_scores * np.where(np.asarray(layout.flash) > 0, foot.selective, 1.0)
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
    return (layer.total - layer.experts) / layout.tp + layer.experts / (layout.ep * _expert_tp(layout))


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
