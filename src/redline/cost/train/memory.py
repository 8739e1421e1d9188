"""Memory of a step at its peak, by what it holds: parts by their lifetime, at the fullest moment of the fullest device.

Two moments can be the peak. When the backward pass begins: states, gradients, all activations in flight, the logits,
and what passes through. In the optimizer's step: states, gradients and its temporaries, but no activations.
Two devices can be the fullest: see `stages`.
"""

from dataclasses import dataclass, fields

import numpy as np

from redline.cost.train.footprint import Footprint, footprint
from redline.cost.train.layout import Batch, Layout, Recompute
from redline.cost.train.outcome import MemoryUse
from redline.cost.train.stages import Stage, first_stage, last_stage, micro_batches
from redline.model.model import Model, Number
from redline.model.parameters import count_parameters, layer_parameters


def memory_use(model: Model, batch: Batch, layout: Layout, stack: str | Footprint) -> MemoryUse:
    """On the fullest device."""
    foot = footprint(stack) if isinstance(stack, str) else stack
    first = stage_memory(model, batch, layout, foot, first_stage(model, batch, layout, foot.head_weighs))
    last = stage_memory(model, batch, layout, foot, last_stage(model, batch, layout, foot.head_weighs))
    return _larger(first, last)


def first_stage_memory(model: Model, batch: Batch, layout: Layout, foot: Footprint) -> MemoryUse:
    """On the first stage alone: what stacks measure that log rank 0."""
    return stage_memory(model, batch, layout, foot, first_stage(model, batch, layout, foot.head_weighs))


def stage_memory(model: Model, batch: Batch, layout: Layout, foot: Footprint, stage: Stage) -> MemoryUse:
    """The larger of the two moments, with what the allocator and the communicators add."""
    states = _states(model, layout, foot, stage)
    tokens = batch.sequence / layout.cp * layout.micro_batch
    layer_bytes = tokens * kept_bytes(model, batch, layout, foot)
    again = np.where(
        np.asarray(layout.recompute) == Recompute.FULL, tokens * whole_bytes(model, layout, foot, 0.0), 0.0
    )
    passing = tokens * model.hidden * foot.passing_hidden * foot.activation_bytes
    use = {
        "weights_bytes": states.weights,
        "gradients_bytes": states.gradients,
        "optimizer_bytes": states.optimizer,
        "activations_bytes": stage.layers * stage.in_flight * layer_bytes + again + passing,
        "head_bytes": stage.head * head_bytes(model, batch, layout, foot),
        "gathers_bytes": _gathers(model, layout, foot),
    }
    stepping = {**use, "activations_bytes": 0.0, "head_bytes": 0.0, "gathers_bytes": states.temporaries}
    return _larger(_with_overheads(use, layout, foot), _with_overheads(stepping, layout, foot))


@dataclass(frozen=True)
class _States:
    weights: Number
    gradients: Number
    optimizer: Number
    temporaries: Number


def _states(model: Model, layout: Layout, foot: Footprint, stage: Stage) -> _States:
    """Parameters of the stage, times their bytes, divided as ZeRO says. Experts have fewer copies to divide over."""
    dense, experts = _parameters(model, layout, stage)
    copies = layout.dp * layout.cp
    shard = np.where(np.asarray(layout.shard) > 0, layout.shard, copies)
    over = (np.maximum(1.0, shard), np.maximum(1.0, shard / np.maximum(1.0, layout.ep)))
    zero = np.asarray(layout.zero)

    def held(level: int) -> Number:
        """Numbers that stay on a device of what this stage of ZeRO divides."""
        return dense / np.where(zero >= level, over[0], 1.0) + experts / np.where(zero >= level, over[1], 1.0)

    frozen = held(3) * (1 - foot.trained) * foot.frozen_bytes
    kept = 1 - layout.offload
    return _States(
        weights=held(3) * foot.trained * foot.weight_bytes + frozen,
        gradients=(held(2) * foot.gradient_bytes + held(2) * foot.spare_gradient_bytes) * foot.trained,
        optimizer=held(1) * foot.trained * (foot.master_bytes + foot.moment_bytes) * kept,
        temporaries=held(1) * foot.trained * foot.step_bytes,
    )


def _parameters(model: Model, layout: Layout, stage: Stage) -> tuple[Number, Number]:
    """On one device of the stage before ZeRO: those that tensor parallelism divides or all hold, and routed experts.

    A tied head is a matrix of its own where it stands on another stage than the embedding.
    """
    layer, counted = layer_parameters(model), count_parameters(model)
    expert_tp = np.where(np.asarray(layout.expert_tp) > 0, layout.expert_tp, layout.tp)
    apart = np.asarray(layout.pp) > 1
    head = np.where(apart, model.vocab * model.hidden, counted.head)
    ends = stage.embedding * (counted.embedding + counted.positions) + stage.head * head
    dense = stage.layers * ((layer.attention + layer.dense + layer.shared) / layout.tp + layer.whole)
    return dense + (ends + counted.other) / layout.tp, stage.layers * layer.experts / (layout.ep * expert_tp)


def kept_bytes(model: Model, batch: Batch, layout: Layout, foot: Footprint) -> Number:
    """Of activations that the forward pass of one average layer leaves for the backward pass, per token."""
    scores = _score_bytes(model, batch, layout)
    recompute, fused = np.asarray(layout.recompute), np.asarray(layout.flash) > 0
    whole = whole_bytes(model, layout, foot, scores)
    selective = np.where(fused, whole * foot.selective, whole - scores)
    split = np.where(np.asarray(layout.sequence_parallel) > 0, layout.tp, 1.0)
    inputs = model.hidden * foot.activation_bytes / split
    return np.where(recompute == Recompute.FULL, inputs, np.where(recompute == Recompute.SELECTIVE, selective, whole))


def whole_bytes(model: Model, layout: Layout, foot: Footprint, scores: Number) -> Number:
    """Without recomputation. What operators need to compute gradients: norms their input (the residual, twice), matmuls
    theirs (two norms' results, attention's result, the gate's product), attention queries, keys and values, the gate
    both its halves. Everything inside attention and the feed-forward part is divided by tensor parallelism; the
    residual and the norms' results only with sequence parallelism, and what the stack gathers and keeps, never.
    """
    h = model.hidden
    attention = model.heads * (model.head_dim + model.value_dim) + model.kv_heads * (model.head_dim + model.value_dim)
    shares = model.attention_layers / model.layers, model.dense_layers / model.layers, model.moe_layers / model.layers
    wide = 2 + model.gated + foot.extra_ffn
    dense = shares[1] * wide * model.ffn
    routed = shares[2] * (model.experts_per_token * (wide * model.expert_ffn + 2 * h) + wide * model.shared_ffn)
    inside = shares[0] * attention + dense + routed + foot.extra_hidden * h
    split = np.where(np.asarray(layout.sequence_parallel) > 0, layout.tp, 1.0)
    gathered = np.where(np.asarray(layout.tp) > 1, foot.gathered_hidden, 0.0) * h
    return (4 * h / split + inside / layout.tp + gathered) * foot.activation_bytes + scores


def _score_bytes(model: Model, batch: Batch, layout: Layout) -> Number:
    """Attention that is not fused keeps, per pair of tokens and head: the softmax, a mask of dropout and its result,
    2 + 1 + 2 bytes.
    """
    pairs = model.heads / layout.tp * batch.sequence * model.attention_layers / model.layers
    return np.where(np.asarray(layout.flash) > 0, 0.0, 5.0 * pairs)


def head_bytes(model: Model, batch: Batch, layout: Layout, foot: Footprint) -> Number:
    """Logits of a micro-batch, divided by tensor parallelism, in every form that exists when the loss is taken."""
    logits = batch.sequence / layout.cp * layout.micro_batch * model.vocab / layout.tp
    several = micro_batches(batch, layout) > 1
    return logits * (foot.logit_bytes + np.where(several, foot.last_logit_bytes, 0.0))


def _gathers(model: Model, layout: Layout, foot: Footprint) -> Number:
    """ZeRO-3: the layer at work and the next one, and the whole gradient of one before it is scattered."""
    layer = layer_parameters(model)
    expert_tp = np.where(np.asarray(layout.expert_tp) > 0, layout.expert_tp, layout.tp)
    numbers = (layer.total - layer.experts) / layout.tp + layer.experts / (layout.ep * expert_tp)
    gathered = np.asarray(layout.zero) >= 3
    return np.where(gathered, numbers * (2 * foot.gather_bytes + foot.gradient_bytes), 0.0)


def _with_overheads(use: dict[str, Number], layout: Layout, foot: Footprint) -> MemoryUse:
    asked: Number = sum(use.values())
    groups = sum(1.0 * (np.asarray(each) > 1) for each in (layout.dp * layout.cp, layout.tp, layout.pp, layout.ep))
    communicators = foot.context_bytes + groups * foot.communicator_bytes
    allocator = foot.fixed_bytes + asked * foot.slack
    parts = np.broadcast_arrays(*use.values(), communicators, allocator)
    names = (*use, "communicators_bytes", "allocator_bytes")
    return MemoryUse(**dict(zip(names, (np.asarray(part, np.float64) for part in parts), strict=True)))


def _larger(one: MemoryUse, other: MemoryUse) -> MemoryUse:
    """Row by row, the one with the higher peak."""
    more = one.peak_bytes >= other.peak_bytes
    names = [field.name for field in fields(MemoryUse)]
    return MemoryUse(**{name: np.where(more, getattr(one, name), getattr(other, name)) for name in names})
