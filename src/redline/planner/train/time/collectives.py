"""How long collectives take: latency and volume per link, for groups inside a node or over several. On columns.

Volumes are those of the textbook, per device of a group of N: an all-reduce moves 2 (N - 1) / N of its data, gathering
and scattering half of that each, an all-to-all (N - 1) / N, a broadcast or a send all of it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from redline.model.model import Number
from redline.planner.train.training_rates import Rates


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
    """Of a collective among the members inside one node."""
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
