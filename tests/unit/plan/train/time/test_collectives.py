"""Collectives move what textbooks say, over the links that their members have."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.hardware.catalogue import find
from redline.plan.train.stacks import Rates, machine_rates
from redline.plan.train.time.collectives import (
    CommGroup,
    all_gather_s,
    all_reduce_s,
    all_to_all_s,
    broadcast_s,
    group,
    reduce_scatter_s,
    ring_pass_s,
    send_s,
)

GB = 1e9
# 100 GB/s inside a node of 8 and 10 GB/s per network card, without latency.
LINKS = replace(
    machine_rates(find("H100-SXM5-80GB"), "bf16"),
    node_bytes_per_s=100 * GB,
    pair_bytes_per_s=100 * GB,
    nic_bytes_per_s=10 * GB,
)
EVERY = (all_reduce_s, all_gather_s, reduce_scatter_s, all_to_all_s, broadcast_s)


def seconds(found: object) -> float:
    return float(found)  # type: ignore[arg-type]


def near(size: int) -> CommGroup:
    return group(float(size), 1.0, LINKS.devices_per_node)


@pytest.mark.parametrize(
    ("collective", "share"),
    [
        (all_reduce_s, 2 * 7 / 8),
        (all_gather_s, 7 / 8),
        (reduce_scatter_s, 7 / 8),
        (all_to_all_s, 7 / 8),
        (broadcast_s, 1.0),
    ],
)
def test_volumes_are_those_of_the_textbook(collective, share) -> None:  # type: ignore[no-untyped-def]
    assert seconds(collective(100 * GB, near(8), LINKS)) == pytest.approx(share)


def test_a_gather_and_a_scatter_are_an_all_reduce() -> None:
    both = seconds(all_gather_s(GB, near(4), LINKS)) + seconds(reduce_scatter_s(GB, near(4), LINKS))
    assert both == pytest.approx(seconds(all_reduce_s(GB, near(4), LINKS)))


@pytest.mark.parametrize("collective", EVERY)
def test_a_device_alone_sends_nothing(collective) -> None:  # type: ignore[no-untyped-def]
    assert seconds(collective(GB, near(1), LINKS)) == 0.0


def test_members_in_a_node_bring_their_own_network_cards() -> None:
    """16 neighbours have 8 cards per node, 16 copies of something that fills a node have one."""
    neighbours, copies = group(16.0, 1.0, 8.0), group(16.0, 8.0, 8.0)
    assert (seconds(neighbours.per_node), seconds(copies.per_node)) == (8, 1)
    slow, fast = seconds(all_reduce_s(GB, copies, LINKS)), seconds(all_reduce_s(GB, neighbours, LINKS))
    assert slow / fast == pytest.approx(8)


def test_the_fabric_limits_a_group_that_has_more_cards_than_it() -> None:
    many = replace(LINKS, nic_bytes_per_s=50 * GB)
    assert seconds(all_gather_s(100 * GB, group(16.0, 1.0, 8.0), many)) == pytest.approx(15 / 16)


def test_without_a_switch_two_devices_have_one_link() -> None:
    """MI300X: a pair has a seventh of what all eight have together."""
    mesh = replace(LINKS, pair_bytes_per_s=LINKS.node_bytes_per_s / 7)
    two, eight = near(2), near(8)
    assert seconds(all_gather_s(100 * GB, two, mesh)) == pytest.approx(7 * 0.5)
    assert seconds(all_gather_s(100 * GB, eight, mesh)) == pytest.approx(7 / 8)


def test_networks_of_many_nodes_sustain_less() -> None:
    tired = replace(LINKS, across_decay=0.5)
    among = group(16.0, 8.0, 8.0)
    assert seconds(all_gather_s(GB, among, tired)) == pytest.approx(4 * seconds(all_gather_s(GB, among, LINKS)))


def test_rings_pass_every_node_and_trees_do_not() -> None:
    late = replace(LINKS, across_latency_s=1.0)
    among = group(64.0, 8.0, 8.0)
    assert seconds(all_gather_s(0.0, among, late)) == 63
    assert seconds(all_reduce_s(0.0, among, late)) == 6


def test_sends_leave_the_node_where_the_stride_does() -> None:
    assert seconds(send_s(GB, 4.0, LINKS)) == pytest.approx(0.01)
    assert seconds(send_s(GB, 8.0, LINKS)) == pytest.approx(0.1)


@given(
    size=st.integers(0, 12).map(lambda power: 2.0**power),
    stride=st.integers(0, 6).map(lambda power: 2.0**power),
    moved=st.floats(1.0, 1e11),
    faster=st.floats(1.0, 10.0),
    which=st.sampled_from(["node_bytes_per_s", "pair_bytes_per_s", "nic_bytes_per_s"]),
)
def test_a_faster_link_is_never_slower(size: float, stride: float, moved: float, faster: float, which: str) -> None:
    better: Rates = replace(LINKS, **{which: getattr(LINKS, which) * faster})
    among = group(size, stride, LINKS.devices_per_node)
    for collective in EVERY:
        assert seconds(collective(moved, among, better)) <= seconds(collective(moved, among, LINKS)) * (1 + 1e-12)


def test_a_ring_passes_all_parts_but_the_own() -> None:
    assert seconds(ring_pass_s(100 * GB, near(8), LINKS)) == pytest.approx(7 / 8)
    assert seconds(ring_pass_s(100 * GB, near(1), LINKS)) == 0.0


def test_a_ring_leaves_a_node_over_one_network_card_however_many_members_are_inside() -> None:
    """10 GB/s, where a gather of all has the cards of the 8 members."""
    assert seconds(ring_pass_s(100 * GB, near(16), LINKS)) == pytest.approx(15 / 16 * 10)
    assert seconds(all_gather_s(100 * GB, near(16), LINKS)) == pytest.approx(15 / 16 * 10 / 8)


def test_a_ring_has_one_link_to_a_neighbour_where_there_is_no_switch() -> None:
    pairs = replace(LINKS, pair_bytes_per_s=25 * GB)
    assert seconds(ring_pass_s(100 * GB, near(8), pairs)) == pytest.approx(7 / 8 * 4)
