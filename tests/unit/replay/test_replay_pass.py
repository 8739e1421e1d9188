"""The pass over a graph, held against the plainest one: the longest way to each point."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.replay.edges import EdgeKind, EdgeList, Edges, with_residuals
from redline.replay.replay import GONE_NS, WaitForEachOtherError, plan_of, replayed
from redline.timeline.table import I64

BEGIN_NS = 5
NEVER = -(1 << 60)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, Edges]:
    """Points in any order, and edges between some of them that all lead one way."""
    points = draw(st.integers(1, 12))
    order = draw(st.permutations(range(points)))
    pair = st.tuples(st.integers(0, points - 1), st.integers(0, points - 1)).filter(lambda ends: ends[0] < ends[1])
    edges = EdgeList()
    if points > 1:
        for low, high in draw(st.lists(pair, max_size=30)):
            kind = draw(st.sampled_from(EdgeKind))
            edges.add(kind, order[low], np.array([order[high]]), draw(st.integers(-3, 50)))
    return points, edges.in_order_of_head()


def naive(points: int, edges: Edges, delays_ns: I64) -> I64:
    """Every edge looked at as often as there are points."""
    heads = set(edges.head.tolist())
    times = [NEVER if point in heads else BEGIN_NS for point in range(points)]
    for _ in range(points + 1):
        for edge in range(len(edges)):
            tail, head = int(edges.tail[edge]), int(edges.head[edge])
            times[head] = max(times[head], times[tail] + int(delays_ns[edge]))
    return np.array(times)


@given(graphs(), st.lists(st.integers(0, 40), min_size=1, max_size=4))
def test_times_are_those_of_the_longest_way(graph: tuple[int, Edges], more_ns: list[int]) -> None:
    points, edges = graph
    delays_ns = np.maximum(edges.delay_ns[:, None], 0) + np.array(more_ns)
    times_ns = replayed(edges, plan_of(edges, points), delays_ns, BEGIN_NS)
    for column in range(len(more_ns)):
        assert times_ns[:, column].tolist() == naive(points, edges, delays_ns[:, column]).tolist()


@given(graphs(), st.data())
def test_with_residuals_a_replay_of_no_change_is_what_was_measured(
    graph: tuple[int, Edges], data: st.DataObject
) -> None:
    points, edges = graph
    reached = np.zeros(points, bool)
    reached[edges.head] = True
    measured = [data.draw(st.integers(BEGIN_NS, 500)) if reached[point] else BEGIN_NS for point in range(points)]
    time_ns = np.array(measured, np.int64)
    exact = with_residuals(edges, time_ns)
    order_holds = (time_ns[exact.tail] <= time_ns[exact.head]).all()
    times_ns = replayed(exact, plan_of(exact, points), exact.delay_ns[:, None], BEGIN_NS)[:, 0]
    if order_holds:
        assert times_ns.tolist() == measured


def test_what_no_edge_holds_up_any_more_comes_at_the_beginning() -> None:
    edges = EdgeList()
    edges.add(EdgeKind.HOST, 0, np.array([1]), 10)
    edges.add(EdgeKind.WAIT, 1, np.array([2]), 20)
    found = edges.in_order_of_head()
    delays_ns = np.where(found.kind == EdgeKind.WAIT, GONE_NS, found.delay_ns)[:, None]
    assert replayed(found, plan_of(found, 3), delays_ns, 0)[:, 0].tolist() == [0, 10, 0]


def test_points_that_wait_for_each_other_are_refused() -> None:
    edges = EdgeList()
    edges.add(EdgeKind.HOST, np.array([0, 1]), np.array([1, 0]), 1)
    with pytest.raises(WaitForEachOtherError, match="wait for each other"):
        plan_of(edges.in_order_of_head(), 2)
