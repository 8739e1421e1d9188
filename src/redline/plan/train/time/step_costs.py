"""What the parts of a step cost: how long each takes alone, per layer, micro-batch or stage.

The closed forms of `step` and the simulated timeline of `simulate` both start from these, so that they can be held
against each other. What overlaps with what:

- A layer's traffic (tensor, context, expert) and its kernels follow each other. The host launches all of them ahead, so
  a layer takes the longer of the host's time and the sum of the device's.
- Weights of ZeRO-3 are gathered and gradients scattered while other layers compute. Of that traffic the share `overlap`
  may hide, and no more than the time of the layer.
- Gradients of plain data parallelism, ZeRO-1 and ZeRO-2 are reduced behind the last micro-batch's backward pass of the
  stage: again the share `overlap`, and no more than that pass takes.
- Everything else that happens once per step follows at its end.
"""

from collections import ChainMap
from dataclasses import dataclass, fields, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from redline.model.model import Column, Model, Number
from redline.model.parameters import LayerParameters, layer_parameters
from redline.plan.train.layout import (
    Batch,
    Layout,
    first_stage,
    frozen,
    last_stage,
    micro_batches,
    trained_ends,
    trained_layer,
)
from redline.plan.train.stacks import Rates
from redline.plan.train.time.collectives import (
    context_traffic_s,
    expert_tp,
    expert_traffic_s,
    gather_updates_s,
    gather_weights_s,
    held,
    held_experts,
    reduce_gradients_s,
    scatter_gradients_s,
    stage_send_s,
    tensor_traffic_s,
)
from redline.plan.train.time.layer import PASSES_BACKWARD, LayerTimes, head_forward_s, layer_times
from redline.plan.train.training_choices import Execution, PipelineSchedule, Recompute

# --- compilation and CUDA graphs --------------------------------------------------------------------------------------


# Kernels of the forward pass of a compiled layer: five matmuls, attention, and what fuses between them; and what
# Inductor's wrapper in Python needs to launch one.
KERNELS_PER_LAYER, LAUNCH_S = 14, 6e-6
# Passes over memory of fused layers: what is fitted to runs of compiled stacks (JAX, torchtitan and FSDP compiled).
HIDDEN_PASSES = 9.0
# A replayed graph is launched once, whatever is in it; what is left is between graphs.
GRAPH_LAYER_S, GRAPH_MICRO_BATCH_S, GRAPH_STEP_S = 1e-6, 50e-6, 2e-3


def executed(rates: Rates, layout: Layout) -> Rates:
    """The rates of a stack, with kernels launched as the layout says. Nothing becomes slower than usual."""
    if not np.any(layout.execution):
        return rates
    chosen = np.asarray(layout.execution)
    compiled, graphs = chosen >= Execution.COMPILED, chosen == Execution.GRAPHS
    layer_s = np.where(graphs, GRAPH_LAYER_S, KERNELS_PER_LAYER * LAUNCH_S)

    def at_most(usual: Number, limit: Number, where: NDArray[np.bool_]) -> Number:
        return np.where(where, np.minimum(usual, limit), usual)

    return replace(
        rates,
        host_layer_s=at_most(rates.host_layer_s, layer_s, compiled),
        hidden_passes=at_most(rates.hidden_passes, HIDDEN_PASSES, compiled),
        host_collective_s=at_most(rates.host_collective_s, GRAPH_LAYER_S, graphs),
        host_expert_s=at_most(rates.host_expert_s, GRAPH_LAYER_S, graphs),
        host_micro_batch_s=at_most(rates.host_micro_batch_s, GRAPH_MICRO_BATCH_S, graphs),
        host_step_s=at_most(rates.host_step_s, GRAPH_STEP_S, graphs),
        host_optimizer_s=at_most(rates.host_optimizer_s, GRAPH_LAYER_S, graphs),
    )


# Collectives of tensor parallelism in one layer: an all-reduce each for attention and feed-forward part, or twice that.
_COLLECTIVES = 2
# Bytes per parameter over the link to the host: a gradient down, an updated weight up.
OFFLOADED_BYTES = 4
# Bytes per parameter that Adam on the host reads and writes: master weight, two moments, gradient and new weight.
HOST_UPDATE_BYTES = 28
# A usual server. Larger domains of one fabric are racks of several hosts.
DEVICES_PER_HOST = 8
# Of the launches of a layer's backward pass, those of gradients of weights: a matmul each, of what else there is.
WEIGHTS_HOST = 1 / 3


Value = TypeVar("Value")
Pieces = dict[str, Number]  # by fields of StepCosts


@dataclass(frozen=True, kw_only=True)
class StepCosts(Generic[Value]):
    """Seconds: columns with one row per layout, or the numbers of one layout. What does not occur is 0."""

    # The pipeline.
    stages: Value
    chunks: Value
    """Pieces of layers per stage (interleaving)."""
    micro_batches: Value
    schedule: Value
    layers_per_stage: Value
    """Of the fullest stage."""
    layers_last_stage: Value
    """Of the one that also has the head: as many, or fewer."""
    layers: Value
    """Of all stages."""

    # One layer and micro-batch: device time of kernels, and what the host needs to launch them.
    forward_s: Value
    backward_s: Value
    """Both gradients, without recomputation."""
    weight_gradient_s: Value
    """The part of `backward_s` that nothing waits for: zero-bubble schedules move it."""
    recompute_s: Value
    host_forward_s: Value
    host_backward_s: Value
    # Traffic inside one layer and micro-batch that compute waits for.
    tensor_forward_s: Value
    tensor_backward_s: Value
    """With what recomputation repeats."""
    tensor_sent_s: Value
    """All of it in a forward pass, with the share that hides behind matmuls."""
    context_forward_s: Value
    """What attention does not hide of the ring's traffic."""
    context_backward_s: Value
    ring_s: Value
    """All of that traffic in a forward pass, hidden or not."""
    attention_s: Value
    """The part of `forward_s` that it can hide behind."""
    expert_forward_s: Value
    expert_backward_s: Value
    expert_sent_s: Value
    """All of it in a forward pass, with the share that hides behind compute."""
    # Weights of one layer and its share of embedding and head, gathered and scattered while others compute (ZeRO-3).
    gather_s: Value
    """Once before the forward, once before the backward pass of the layer."""
    scatter_s: Value

    # One micro-batch.
    head_forward_s: Value
    head_backward_s: Value
    """Logits and loss, on the last stage."""
    host_micro_batch_s: Value
    """What the host does for each micro-batch on each stage while the device waits; part of the forward pass."""
    send_s: Value
    """Activations from one stage to the next; gradients take the same."""

    # Once per step, per stage.
    reduce_s: Value
    """Gradients over data-parallel copies; the last backward pass may hide it."""
    broadcast_s: Value
    """Updated weights to all copies (ZeRO-1 and 2), without what the next forward pass hides."""
    overlap: Value
    """Share of gather, scatter and reduce that may run while the device computes."""
    optimizer_s: Value
    offload_s: Value
    host_step_s: Value


def step_costs(model: Model, batch: Batch, layout: Layout, rates: Rates) -> StepCosts[Column]:
    """The costs of every row, which has a model, a batch, a layout and rates of its own where these have columns."""
    rates = executed(rates, layout)
    times = layer_times(model, batch, layout, rates)
    rest, experts = apart(layer_parameters(model), layout)
    trained_rest, trained_experts = apart(trained_layer(model, layout), layout)
    outside = ends(model, layout)
    trained_outside = trained_ends(layout) * outside
    first = first_stage(model, batch, layout, rates.balanced_head).layers
    last = last_stage(model, batch, layout, rates.balanced_head).layers
    every, some = held(layout, rates), held_experts(layout, rates)
    # The embedding and the head are gathered and scattered with each micro-batch too: each layer has its share of them.
    split, trained_split = rest + outside / first, trained_rest + trained_outside / first
    update = once_per_step(trained_rest * first + trained_outside, trained_experts * first, first, layout, rates)
    logits_s = head_forward_s(model, batch, layout, rates)
    return in_columns(
        _kernels(times, trained_rest + trained_experts, layout, rates),
        _host(model, layout, rates),
        _traffic(model, batch, layout, rates, times),
        update,
        stages=layout.pp,
        chunks=layout.chunks,
        micro_batches=micro_batches(batch, layout),
        schedule=np.minimum(layout.schedule, float(PipelineSchedule.ZERO_BUBBLE)),
        layers_per_stage=np.maximum(first, last),
        layers_last_stage=last,
        layers=model.layers,
        attention_s=times.attention_s,
        gather_s=gather_weights_s(split, every, layout, rates) + gather_weights_s(experts, some, layout, rates),
        scatter_s=scatter_gradients_s(trained_split, every, layout, rates)
        + scatter_gradients_s(trained_experts, some, layout, rates),
        head_forward_s=logits_s,
        head_backward_s=(2.0 - frozen(layout)) * logits_s,
        send_s=_send_s(model, batch, layout, rates),
        overlap=rates.overlap,
        host_step_s=rates.host_step_s,
    )


def in_columns(*several: Pieces, **pieces: Number) -> StepCosts[Column]:
    """All with as many rows as the longest of them; what is not named does not occur."""
    named: Pieces = {**{field.name: 0.0 for field in fields(StepCosts)}, **ChainMap(pieces, *several)}
    columns = np.broadcast_arrays(*(np.asarray(piece, np.float64) for piece in named.values()))
    return StepCosts[Column](**dict(zip(named, columns, strict=True)))


def of_row(costs: StepCosts[Column], row: int = 0) -> StepCosts[float]:
    """Those of one layout."""
    return StepCosts[float](
        **{field.name: float(np.ravel(getattr(costs, field.name))[row]) for field in fields(StepCosts)}
    )


def _send_s(model: Model, batch: Batch, layout: Layout, rates: Rates) -> Number:
    """To the next stage: the link, the host, and what a stalling cluster adds."""
    stall_s = np.where(_stalls(layout, rates), rates.stall_send_s, 0.0)
    more_s = np.where(layout.pp > 1, rates.host_send_s + stall_s, 0.0)
    return stage_send_s(model, batch, layout, rates) + more_s


def _stalls(layout: Layout, rates: Rates) -> NDArray[np.bool_]:
    """Tell whether a job is as large as those that stall."""
    return np.asarray(_devices(layout) >= rates.stall_nodes * rates.devices_per_node)


def _devices(layout: Layout) -> Number:
    return layout.dp * layout.tp * layout.pp * layout.cp


def _kernels(times: LayerTimes, trained: Number, layout: Layout, rates: Rates) -> Pieces:
    """Device time of one layer and micro-batch.

    Backward: gradients of inputs and of weights, which are added up in memory. Recomputing everything repeats the
    forward pass, recomputing selectively the inside of attention.

    Adapters take no time of their own: 33 measured runs with LoRA are predicted without bias as it is.
    """
    forward_s = times.matmuls_s + times.attention_s + times.passes_s
    added_s = trained * rates.accumulate_bytes / rates.memory_bytes_per_s
    weights_s = np.where(frozen(layout) == 1, 0.0, times.matmuls_s) + added_s
    backward_s = times.matmuls_s + weights_s + times.attention_backward_s + PASSES_BACKWARD * times.passes_s
    some_s = times.attention_s + rates.selective_share * (times.matmuls_s + times.passes_s)
    again_s = np.where(layout.recompute == Recompute.SELECTIVE, some_s, 0.0)
    return {
        "forward_s": forward_s,
        "backward_s": backward_s,
        "weight_gradient_s": weights_s,
        "recompute_s": np.where(layout.recompute == Recompute.FULL, forward_s, again_s),
    }


def _host(model: Model, layout: Layout, rates: Rates) -> Pieces:
    """Launches of a layer, with its collectives; recomputing everything launches the forward pass once more."""
    split = layout.tp > 1
    collectives = np.where(split, _COLLECTIVES * (1 + layout.sequence_parallel), 0.0)
    busy = (layout.pp > 1) & (_devices(layout) > rates.devices_per_node)
    spans = np.log2(np.maximum(layout.tp / rates.devices_per_node, 1))
    each_s = rates.host_collective_s + rates.host_across_s * spans + np.where(busy, rates.host_busy_s * layout.tp, 0.0)
    routing_s = rates.host_expert_s * model.moe_layers / model.layers
    forward_s = rates.host_layer_s + collectives * each_s + routing_s
    again_s = np.where(layout.recompute == Recompute.FULL, forward_s, 0.0)
    stalls = _stalls(layout, rates) & (layout.pp == 1)
    return {
        "host_forward_s": forward_s,
        "host_backward_s": forward_s * rates.host_backward + again_s,
        "host_micro_batch_s": rates.host_micro_batch_s + np.where(stalls, rates.stall_micro_batch_s, 0.0),
    }


def _traffic(model: Model, batch: Batch, layout: Layout, rates: Rates, times: LayerTimes) -> Pieces:
    """What one layer and micro-batch sends: what compute waits for, and all of it in a forward pass.

    Recomputing everything repeats what the forward pass sent. Ring attention sends behind its own kernels."""
    again = layout.recompute == Recompute.FULL
    tensor_sent_s, tensor_sent_back_s = tensor_traffic_s(model, batch, layout, rates)
    tensor_s, tensor_back_s = ((1 - rates.tensor_overlap) * sent_s for sent_s in (tensor_sent_s, tensor_sent_back_s))
    context_s, context_back_s = context_traffic_s(model, batch, layout, rates)
    expert_sent_s = expert_traffic_s(model, batch, layout, rates)
    expert_s = _exposed_expert_s(expert_sent_s, layout, rates, times)
    shown_s = np.maximum(context_s - times.attention_s, 0.0)
    shown_back_s = np.maximum(context_back_s - times.attention_backward_s, 0.0)
    return {
        "tensor_forward_s": tensor_s,
        "tensor_backward_s": tensor_back_s + np.where(again, tensor_s, 0.0),
        "tensor_sent_s": tensor_sent_s,
        "context_forward_s": shown_s,
        "context_backward_s": shown_back_s + np.where(again, shown_s, 0.0),
        "ring_s": context_s,
        "expert_forward_s": expert_s,
        "expert_backward_s": expert_s * (1 + again),
        "expert_sent_s": expert_sent_s,
    }


def _exposed_expert_s(sent_s: Number, layout: Layout, rates: Rates, times: LayerTimes) -> Number:
    """What a forward pass waits for. DualPipe sends for one micro-batch while another one computes, in the other
    direction: all of it may hide, and no more than both passes take.
    """
    dual = np.asarray(layout.schedule) == PipelineSchedule.DUALPIPE
    forward_s = times.matmuls_s + times.attention_s + times.passes_s
    backward_s = 2 * times.matmuls_s + times.attention_backward_s + PASSES_BACKWARD * times.passes_s
    beside_s = np.where(dual, (forward_s + backward_s) / 2, forward_s)
    overlap = np.where(dual, 1.0, rates.expert_overlap)
    return np.maximum((1 - overlap) * sent_s, sent_s - beside_s)


def once_per_step(rest: Number, experts: Number, layers: Number, layout: Layout, rates: Rates) -> Pieces:
    """Reducing gradients, and updating weights.

    Given the trained parameters of a stage on one device, those of routed experts apart, in how many layers.
    """
    parts = ((rest, held(layout, rates)), (experts, held_experts(layout, rates)))
    reduce_s = sum(reduce_gradients_s(parameters, layers, by, layout, rates) for parameters, by in parts)
    update_s = sum(gather_updates_s(parameters, layers, by, layout, rates) for parameters, by in parts)
    states = optimizer_states(rest, experts, layout, rates)
    offloaded = states * layout.offload
    longer = np.where(_stalls(layout, rates) & (layout.zero == 0), rates.stall_reduce, 1.0)
    on_device_s = (states - offloaded) * rates.optimizer_bytes / rates.memory_bytes_per_s
    over_link_s = offloaded * OFFLOADED_BYTES / rates.host_link_bytes_per_s
    return {
        "reduce_s": longer * reduce_s,
        "broadcast_s": update_s * (1 - rates.update_overlap),
        "optimizer_s": on_device_s + layers * rates.host_optimizer_s,
        "offload_s": over_link_s + _host_update_s(offloaded, layout, rates),
    }


def optimizer_states(rest: Number, experts: Number, layout: Layout, rates: Rates) -> Number:
    """Parameters whose states one device has: its shard of each part, from ZeRO-1 on."""
    split = rest / held(layout, rates).shards.size + experts / held_experts(layout, rates).shards.size
    return np.where(layout.zero >= 1, split, rest + experts)


def _host_update_s(offloaded: Number, layout: Layout, rates: Rates) -> Number:
    """Adam on the host, which is as fast as its memory; all devices that the host has share it."""
    sharing = np.minimum(np.minimum(rates.devices_per_node, DEVICES_PER_HOST), _devices(layout))
    return offloaded * sharing * HOST_UPDATE_BYTES / rates.host_memory_bytes_per_s


def divided(layer: LayerParameters, layout: Layout) -> Number:
    """Parameters of a layer on one device."""
    rest, experts = apart(layer, layout)
    return rest + experts


def apart(layer: LayerParameters, layout: Layout) -> tuple[Number, Number]:
    """Parameters of a layer on one device: all but routed experts, and these."""
    rest = (layer.attention + layer.dense + layer.shared) / layout.tp + layer.whole
    return rest, layer.experts / (layout.ep * expert_tp(layout))


def ends(model: Model, layout: Layout) -> Number:
    """Of the embedding or the head, which the fullest stage has beside its layers; both where there is one stage."""
    both = np.where((layout.pp == 1) & (model.tied == 0), 2.0, 1.0)
    return both * model.vocab * model.hidden / layout.tp
