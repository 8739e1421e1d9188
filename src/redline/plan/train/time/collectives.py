"""How long collectives take: latency and volume per link, for groups inside a node or over several. On columns.

Volumes are those of the textbook, per device of a group of N: an all-reduce moves 2 (N - 1) / N of its data, gathering
and scattering half of that each, an all-to-all (N - 1) / N, a broadcast or a send all of it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from redline.model.model import Model, Number
from redline.plan.train.layout import Batch, Layout
from redline.plan.train.stacks import Rates
from redline.plan.train.time.layer import tokens_per_device
from redline.plan.train.training_choices import PipelineSchedule


@dataclass(frozen=True, kw_only=True)
class CommGroup:
    """Devices that communicate: how many, and how they lie in nodes."""

    size: Number
    per_node: Number
    """Members inside one node."""

    @property
    def nodes(self) -> Number:
        return self.size / self.per_node


def group(size: Number, stride: Number, devices_per_node: Number) -> CommGroup:
    """Every `stride`-th device: neighbours (tensor parallel) have 1, copies of a model that fills 8 devices have 8."""
    per_node = np.clip(np.floor(devices_per_node / stride), 1, size)
    return CommGroup(size=size, per_node=per_node)


def bus_bytes_per_s(among: CommGroup, rates: Rates, share: Number = 1.0) -> Number:
    """What a ring through the group sustains: the slower of its links.

    Inside a node without a switch, only the links to other members count: (members - 1) pairs of them. Across nodes,
    every member brings its own network card: while all groups of a node communicate, none has more. Over many
    nodes networks sustain less.
    """
    inside = _inside_bytes_per_s(among, rates)
    cards = np.asarray(among.per_node, np.float64) ** rates.nic_sharing
    across = share * rates.nic_bytes_per_s * cards * _decay(among, rates)
    alone = among.per_node == 1
    return np.where(among.nodes > 1, np.where(alone, across, np.minimum(inside, across)), inside)


def _inside_bytes_per_s(among: CommGroup, rates: Rates) -> Number:
    """The bandwidth of a collective among the members inside one node."""
    linked = np.minimum(rates.node_bytes_per_s, rates.pair_bytes_per_s * np.maximum(among.per_node - 1, 1))
    if np.all(np.isinf(rates.server_bytes_per_s)):
        return linked
    return np.where(among.per_node > rates.linked_devices, rates.server_bytes_per_s, linked)


def _neighbour_bytes_per_s(members: Number, rates: Rates) -> Number:
    """From one device of a node to the next of so many."""
    linked = np.minimum(rates.node_bytes_per_s, rates.pair_bytes_per_s)
    return np.where(members > rates.linked_devices, rates.server_bytes_per_s, linked)


def _decay(among: CommGroup, rates: Rates) -> Number:
    decay: NDArray[np.float64] = np.maximum(among.nodes, 1) ** -np.asarray(rates.across_decay, np.float64)
    return decay


def _latency_s(among: CommGroup, rates: Rates, *, tree: bool) -> Number:
    """Rings pass every node one after the other, trees double their reach with every level."""
    levels = np.log2(np.maximum(among.nodes, 1)) if tree else among.nodes - 1
    return rates.node_latency_s + rates.across_latency_s * levels


def _time_s(volume: Number, among: CommGroup, rates: Rates, *, tree: bool, messages: Number = 1.0) -> Number:
    share = 1.0 if tree else rates.gather_share
    moved_s = volume / bus_bytes_per_s(among, rates, share)
    return np.where(among.size > 1, moved_s + messages * _latency_s(among, rates, tree=tree), 0.0)


def all_reduce_s(size_bytes: Number, among: CommGroup, rates: Rates, messages: Number = 1.0) -> Number:
    """Of `size_bytes` on every device, in so many messages. A tree moves as much as a ring, with less latency."""
    volume = size_bytes * 2 * (among.size - 1) / among.size
    return _time_s(volume, among, rates, tree=True, messages=messages)


def all_gather_s(size_bytes: Number, among: CommGroup, rates: Rates, messages: Number = 1.0) -> Number:
    """Until every device has all `size_bytes`, of which each had its share."""
    volume = size_bytes * (among.size - 1) / among.size
    return _time_s(volume, among, rates, tree=False, messages=messages)


def reduce_scatter_s(size_bytes: Number, among: CommGroup, rates: Rates, messages: Number = 1.0) -> Number:
    """The sum of `size_bytes` on every device, of which each keeps its share: an all-gather backwards."""
    return all_gather_s(size_bytes, among, rates, messages)


def ring_pass_s(size_bytes: Number, among: CommGroup, rates: Rates) -> Number:
    """Until the parts of all members, `size_bytes` together, have passed every device, from neighbour to neighbour.

    One ring goes through the group: it leaves a node over one device's network card, however many members are inside.
    """
    volume = size_bytes * (among.size - 1) / among.size
    inside = _neighbour_bytes_per_s(among.per_node, rates)
    across = rates.nic_bytes_per_s * _decay(among, rates)
    spans = np.where(among.per_node == 1, across, np.minimum(inside, across))
    moved_s = volume / np.where(among.nodes > 1, spans, inside)
    return np.where(among.size > 1, moved_s + _latency_s(among, rates, tree=False), 0.0)


def broadcast_s(size_bytes: Number, among: CommGroup, rates: Rates) -> Number:
    return _time_s(size_bytes, among, rates, tree=True)


def all_to_all_s(size_bytes: Number, among: CommGroup, rates: Rates, once_per_node: Number = 1.0) -> Number:
    """Each device sends `size_bytes` in equal parts to all, itself included. Nothing is passed on, so every device has
    its own links alone: what leaves the node goes over one network card per device.

    Where parts for several members of a node are the same and cross the network once, to be passed on inside the node,
    `once_per_node` is the share of what leaves that is left.
    """
    beyond = once_per_node * size_bytes * (among.size - among.per_node) / among.size
    passed_on = np.where(np.asarray(once_per_node) < 1, among.size, among.per_node)
    within = size_bytes * (among.per_node - 1) / among.per_node * passed_on / among.size
    across = rates.nic_bytes_per_s * _decay(among, rates)
    moved = np.maximum(beyond / across, within / _inside_bytes_per_s(among, rates))
    return np.where(among.size > 1, moved + _latency_s(among, rates, tree=True), 0.0)


def send_s(size_bytes: Number, stride: Number, rates: Rates) -> Number:
    """To the device `stride` further, which is in another node where the stride is as large as one."""
    outside = stride >= rates.devices_per_node
    link = np.where(outside, rates.nic_bytes_per_s, _neighbour_bytes_per_s(stride + 1, rates))
    # What is fitted for the node is of collectives, which wait for all members.
    latency = np.where(outside, rates.across_latency_s, np.minimum(rates.node_latency_s, rates.across_latency_s))
    return size_bytes / link + latency


# --- traffic of a step ------------------------------------------------------------------------------------------------


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
