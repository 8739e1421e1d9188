"""What devices send each other during a step, and how long each takes alone. Columns, one row per layout."""

import numpy as np

from redline.cost.collectives import (
    Group,
    all_gather_s,
    all_reduce_s,
    all_to_all_s,
    group,
    reduce_scatter_s,
    send_s,
)
from redline.cost.train.layout import Batch, Layout
from redline.cost.train.rates import Rates
from redline.cost.train.time.layer import NUMBER_BYTES, tokens_per_device
from redline.model.model import Model, Number


def tensor_traffic_s(model: Model, batch: Batch, layout: Layout, rates: Rates) -> tuple[Number, Number]:
    """Forward and backward. Attention and the feed-forward part end in an all-reduce each; with sequence parallel it is
    a scatter, and a gather before: the same volume. Backwards the same, and with sequence parallel the inputs of both
    parts are gathered once more for the gradients of weights.
    """
    among = group(layout.tp, 1, rates.devices_per_node)
    size = tokens_per_device(batch, layout) * model.hidden * NUMBER_BYTES
    parts = 1.0 + (model.dense_layers > 0) * model.dense_layers / model.layers
    # Hybrids count a mixer or a feed-forward part as a layer.
    parts = np.asarray(np.where(model.state_layers > 0, 1.0, parts), np.float64)
    split = layout.sequence_parallel == 1
    gather_s = all_gather_s(size, among, rates)
    pair_s = np.where(split, 2 * gather_s, all_reduce_s(size, among, rates))
    shown = np.asarray(1 - rates.tensor_overlap, np.float64)
    return parts * pair_s * shown, parts * (pair_s + np.where(split, gather_s, 0.0)) * shown


def context_traffic_s(model: Model, batch: Batch, layout: Layout, rates: Rates) -> tuple[Number, Number]:
    """Ring attention: the keys and values of all others pass by; backwards their gradients as well."""
    among = group(layout.cp, layout.tp, rates.devices_per_node)
    width = model.kv_heads * (model.head_dim + model.value_dim) / layout.tp
    size = tokens_per_device(batch, layout) * layout.cp * width * NUMBER_BYTES
    once_s = all_gather_s(size, among, rates) * model.attention_layers / model.layers
    return once_s, 2 * once_s


def expert_traffic_s(model: Model, batch: Batch, layout: Layout, rates: Rates) -> Number:
    """Tokens to their experts and back: two all-to-alls, forward; backward the same."""
    among = group(layout.ep, layout.tp, rates.devices_per_node)
    rows = tokens_per_device(batch, layout) * model.experts_per_token / layout.tp
    once_s = all_to_all_s(rows * model.hidden * NUMBER_BYTES, among, rates)
    return 2 * once_s * (1 - rates.expert_overlap) * model.moe_layers / model.layers


def stage_send_s(model: Model, batch: Batch, layout: Layout, rates: Rates) -> Number:
    """The residual stream, to the device of the next stage; with sequence parallel each sends its share of it."""
    split = np.where(layout.sequence_parallel == 1, layout.tp, 1)
    size = tokens_per_device(batch, layout) * model.hidden * NUMBER_BYTES / split
    stride = layout.tp * layout.cp * layout.dp
    return np.where(layout.pp > 1, send_s(size, stride, rates), 0.0)


def copies(layout: Layout, rates: Rates) -> Group:
    """Devices that hold the same part of the model, and reduce its gradients."""
    return group(layout.dp * layout.cp, layout.tp, rates.devices_per_node)


def shards(layout: Layout, rates: Rates) -> Group:
    """Devices that ZeRO splits over: all copies, or neighbours among them."""
    every = layout.dp * layout.cp
    size = np.where(layout.shard > 0, np.minimum(layout.shard, every), every)
    return group(size, layout.tp, rates.devices_per_node)


def replicas(layout: Layout, rates: Rates) -> Group:
    """Devices that hold the same shard (HSDP): one where all copies are in one group."""
    of_shards = shards(layout, rates)
    stride = layout.tp * of_shards.size
    return group(layout.dp * layout.cp / of_shards.size, stride, rates.devices_per_node)


def gather_weights_s(weights: Number, layout: Layout, rates: Rates) -> Number:
    """Those of one layer, before it computes (ZeRO-3)."""
    wanted = layout.zero == 3
    return np.where(wanted, all_gather_s(weights * NUMBER_BYTES, shards(layout, rates), rates), 0.0)


def scatter_gradients_s(weights: Number, layout: Layout, rates: Rates) -> Number:
    """Those of one layer, after it has computed them (ZeRO-2 and 3); with several shards also over their replicas."""
    size = weights * rates.gradient_bytes
    of_shards = shards(layout, rates)
    once_s = reduce_scatter_s(size, of_shards, rates)
    again_s = all_reduce_s(size / of_shards.size, replicas(layout, rates), rates)
    return np.where(layout.zero == 3, once_s + again_s, 0.0)


def reduce_gradients_s(weights: Number, layers: Number, layout: Layout, rates: Rates) -> Number:
    """All of a stage, once per step, in a message per layer: an all-reduce; from ZeRO-1 on a scatter, because
    each keeps its shard alone.
    """
    size = weights * rates.gradient_bytes
    among, of_shards = copies(layout, rates), shards(layout, rates)
    again_s = all_reduce_s(size / of_shards.size, replicas(layout, rates), rates, layers)
    scatter_s = reduce_scatter_s(size, of_shards, rates, layers) + again_s
    plain_s = all_reduce_s(size, among, rates, layers)
    return np.where(layout.zero == 3, 0.0, np.where(layout.zero == 0, plain_s, scatter_s))


def gather_updates_s(weights: Number, layers: Number, layout: Layout, rates: Rates) -> Number:
    """Updated weights of a stage to all that hold them (ZeRO-1 and 2), in a message per layer."""
    wanted = (layout.zero == 1) | (layout.zero == 2)
    once_s = all_gather_s(weights * NUMBER_BYTES, shards(layout, rates), rates, layers)
    return np.where(wanted, once_s, 0.0)
