"""What devices send each other during a step, and how long each takes alone. Columns, one row per layout."""

from dataclasses import dataclass

import numpy as np

from redline.model.model import Model, Number
from redline.planner.train.layout import Batch, Layout
from redline.planner.train.time.collectives import (
    CommGroup,
    all_gather_s,
    all_reduce_s,
    all_to_all_s,
    group,
    reduce_scatter_s,
    ring_pass_s,
    send_s,
)
from redline.planner.train.time.layer import tokens_per_device
from redline.planner.train.training_choices import PipelineSchedule
from redline.planner.train.training_rates import Rates


def tensor_traffic_s(model: Model, batch: Batch, layout: Layout, rates: Rates) -> tuple[Number, Number]:
    """Forward and backward. Attention and the feed-forward part end in an all-reduce each; with sequence parallel it is
    a scatter, and a gather before: the same volume. Backwards the same, and with sequence parallel the inputs of both
    parts are gathered once more for the gradients of weights.
    """
    among = group(layout.tp, 1, rates.devices_per_node)
    size = tokens_per_device(batch, layout) * model.hidden * rates.number_bytes
    parts = 1.0 + (model.dense_layers > 0) * model.dense_layers / model.layers
    # Hybrids count a mixer or a feed-forward part as a layer.
    parts = np.asarray(np.where(model.state_layers > 0, 1.0, parts), np.float64)
    split = layout.sequence_parallel == 1
    gather_s = all_gather_s(size, among, rates)
    pair_s = np.where(split, 2 * gather_s, all_reduce_s(size, among, rates))
    return parts * pair_s, parts * (pair_s + np.where(split, gather_s, 0.0))


def context_traffic_s(model: Model, batch: Batch, layout: Layout, rates: Rates) -> tuple[Number, Number]:
    """Ring attention: the keys and values of all others pass by; backwards their gradients as well."""
    among = group(layout.cp, layout.tp, rates.devices_per_node)
    size = tokens_per_device(batch, layout) * layout.cp * keys_and_values(model, layout) * rates.number_bytes
    once_s = ring_pass_s(size, among, rates) * model.attention_layers / model.layers
    return once_s, 2 * once_s


def keys_and_values(model: Model, layout: Layout) -> Number:
    """Numbers per token on one device, which has one head of them at least."""
    return np.maximum(model.kv_heads / layout.tp, 1.0) * (model.head_dim + model.value_dim)


def expert_traffic_s(model: Model, batch: Batch, layout: Layout, rates: Rates) -> Number:
    """Tokens to their experts and back: two all-to-alls, forward; backward the same. All wait for the busiest."""
    if not np.any(model.moe_layers):
        return 0.0
    among = expert_group(layout, rates)
    rows = layout.imbalance * tokens_per_device(batch, layout) * model.experts_per_token / layout.tp
    size = rows * model.hidden * rates.number_bytes
    once_s = all_to_all_s(size, among, rates, sent_once_per_node(model, layout, rates))
    return 2 * once_s * model.moe_layers / model.layers


def expert_group(layout: Layout, rates: Rates) -> CommGroup:
    """Devices that share the experts of a layer: neighbours, but for those that share each expert."""
    return group(layout.ep, expert_tp(layout), rates.devices_per_node)


def sent_once_per_node(model: Model, layout: Layout, rates: Rates) -> Number:
    """Of the copies of a token that leave its node, one for each expert, the share that crosses the network.

    Of n nodes, k experts of a token are in n (1 - (1 - 1 / n) ** k) on average, where all are as likely. The kernels
    that DualPipe was written with do so whatever the stack.
    """
    among = expert_group(layout, rates)
    dispatched = (np.asarray(rates.expert_dispatch) > 0) | (np.asarray(layout.schedule) == PipelineSchedule.DUALPIPE)
    nodes, experts = np.maximum(among.nodes, 1.0), np.maximum(model.experts_per_token, 1)
    reached = nodes * (1 - (1 - 1 / nodes) ** experts)
    return np.where((among.nodes > 1) & dispatched, reached / experts, 1.0)


def stage_send_s(model: Model, batch: Batch, layout: Layout, rates: Rates) -> Number:
    """The residual stream, to the device of the next stage; with sequence parallel each sends its share of it."""
    split = np.where(layout.sequence_parallel == 1, layout.tp, 1)
    size = tokens_per_device(batch, layout) * model.hidden * rates.number_bytes / split
    stride = layout.tp * layout.cp * layout.dp
    return np.where(layout.pp > 1, send_s(size, stride, rates), 0.0)


@dataclass(frozen=True, kw_only=True)
class Held:
    """Devices that hold the same part of the model, and how ZeRO divides it among them."""

    copies: CommGroup
    """All of them: they reduce its gradients."""
    shards: CommGroup
    """Those that ZeRO splits over: all copies, or neighbours among them."""
    replicas: CommGroup
    """Those that hold the same shard (HSDP): one where all copies are in one group."""


def held(layout: Layout, rates: Rates) -> Held:
    """Everything but routed experts."""
    return _held(layout.dp * layout.cp, layout.tp, layout.shard, rates)


def held_experts(layout: Layout, rates: Rates) -> Held:
    """Routed experts have fewer copies, further apart: each device has some of them alone."""
    stride = layout.ep * expert_tp(layout)
    every = np.maximum(layout.dp * layout.cp * layout.tp / stride, 1.0)
    return _held(every, stride, np.where(layout.shard > 0, np.maximum(layout.shard * layout.tp / stride, 1), 0), rates)


def _held(every: Number, stride: Number, shard: Number, rates: Rates) -> Held:
    size = np.where(shard > 0, np.minimum(shard, every), every)
    return Held(
        copies=group(every, stride, rates.devices_per_node),
        shards=group(size, stride, rates.devices_per_node),
        replicas=group(every / size, stride * size, rates.devices_per_node),
    )


def expert_tp(layout: Layout) -> Number:
    return np.where(layout.expert_tp == 0, layout.tp, layout.expert_tp)


def gather_weights_s(weights: Number, by: Held, layout: Layout, rates: Rates) -> Number:
    """Those of one layer, before it computes (ZeRO-3)."""
    wanted = (layout.zero == 3) & (weights > 0)
    return np.where(wanted, all_gather_s(weights * rates.number_bytes, by.shards, rates), 0.0)


def scatter_gradients_s(weights: Number, by: Held, layout: Layout, rates: Rates) -> Number:
    """Those of one layer, after it has computed them (ZeRO-3); with several shards also over their replicas."""
    size = weights * rates.gradient_bytes
    once_s = reduce_scatter_s(size, by.shards, rates)
    again_s = all_reduce_s(size / by.shards.size, by.replicas, rates)
    return np.where((layout.zero == 3) & (weights > 0), once_s + again_s, 0.0)


def reduce_gradients_s(weights: Number, layers: Number, by: Held, layout: Layout, rates: Rates) -> Number:
    """All of a stage, once per step, in a message per layer: an all-reduce; from ZeRO-1 on a scatter, because
    each keeps its shard alone.
    """
    size = weights * rates.gradient_bytes
    again_s = all_reduce_s(size / by.shards.size, by.replicas, rates, layers)
    scatter_s = reduce_scatter_s(size, by.shards, rates, layers) + again_s
    plain_s = all_reduce_s(size, by.copies, rates, layers)
    wanted = (layout.zero < 3) & (weights > 0)
    return np.where(wanted, np.where(layout.zero == 0, plain_s, scatter_s), 0.0)


def gather_updates_s(weights: Number, layers: Number, by: Held, layout: Layout, rates: Rates) -> Number:
    """Updated weights of a stage to all that hold them (ZeRO-1 and 2), in a message per layer."""
    wanted = ((layout.zero == 1) | (layout.zero == 2)) & (weights > 0)
    once_s = all_gather_s(weights * rates.number_bytes, by.shards, rates, layers)
    return np.where(wanted, once_s, 0.0)
