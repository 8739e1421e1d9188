"""Nodes that are late across jobs: the chance is exact, planted ones are named, and nobody is without reason."""

from itertools import product
from math import log

import numpy as np
import pytest

from redline.lake.questions import JudgedNodes, chance_of, judged_nodes


def judged(seed: int, bad: tuple[int, ...] = (), *, jobs: int = 150, nodes: int = 100) -> JudgedNodes:
    """Jobs of 4 to 24 nodes; ranks of bad nodes cause three times what others do."""
    random = np.random.default_rng(seed)
    job, node, first, lateness = [], [], [], []
    for number in range(jobs):
        placed = random.choice(nodes, random.integers(4, 25), replace=False)
        job += [f"job-{number}"] * len(placed)
        node += [f"node-{name}" for name in placed.tolist()]
        first += [place == 0 for place in range(len(placed))]
        noise = random.gamma(0.5, 1.0, (len(placed), 8)).sum(axis=1) * random.lognormal(0, 1)
        lateness += (noise * np.where(np.isin(placed, bad), 3.0, 1.0)).tolist()
    ranks = np.full(len(job), 8)
    return judged_nodes(job, node, ranks=ranks, has_first_rank=np.array(first), lateness=np.array(lateness))


def named(nodes: JudgedNodes) -> set[str]:
    return {nodes.nodes[place] for place in np.flatnonzero(nodes.late)}


def test_planted_nodes_are_named_and_no_other() -> None:
    assert named(judged(1, bad=(7, 31, 64))) == {"node-7", "node-31", "node-64"}


def test_the_rate_of_false_ones_holds() -> None:
    """At most 1 of 100 lakes names any; of 60, two or more would be a chance of about 1 in 10."""
    assert sum(bool(named(judged(seed))) for seed in range(100, 160)) <= 2


def test_the_chance_is_that_of_counting_all_outcomes() -> None:
    """For three jobs of 2, 3 and 4 nodes there are 24 outcomes."""
    sizes = np.array([2, 3, 4])
    scores = [
        sum(log(size / place) for size, place in zip((2, 3, 4), places, strict=True))
        for places in product((1, 2), (1, 2, 3), (1, 2, 3, 4))
    ]
    for score in sorted(set(scores)):
        exact = sum(other >= score - 1e-9 for other in scores) / len(scores)
        within_bins = sum(other >= score - 0.05 for other in scores) / len(scores)
        assert exact - 1e-9 <= chance_of(score, sizes) <= within_bins + 1e-9


def test_the_latest_of_every_job_has_the_chance_of_that() -> None:
    assert chance_of(8 * log(10), np.full(8, 10)) == pytest.approx(1e-8, rel=0.05)


def test_the_node_of_the_first_rank_is_not_judged() -> None:
    """Rank 0 writes the log in each of these jobs, on the same node: that is no fault of the node."""
    jobs = [f"job-{number}" for number in range(40) for _ in range(4)]
    nodes = [f"node-{place}" for _ in range(40) for place in range(4)]
    late = np.array([5.0, 1.0, 1.0, 1.0] * 40)
    judged_here = judged_nodes(
        jobs, nodes, ranks=np.full(160, 8), has_first_rank=np.array([True, False, False, False] * 40), lateness=late
    )
    assert "node-0" not in judged_here.nodes
    assert not judged_here.late.any()


def test_equal_lateness_is_no_evidence() -> None:
    jobs = [f"job-{number}" for number in range(50) for _ in range(5)]
    nodes = [f"node-{place}" for _ in range(50) for place in range(5)]
    nobody = np.zeros(250, bool)
    equal = judged_nodes(jobs, nodes, ranks=np.full(250, 8), has_first_rank=nobody, lateness=np.zeros(250))
    assert equal.chance.tolist() == [1.0] * 5


def test_nodes_are_compared_with_those_that_have_as_many_ranks() -> None:
    """A node with one rank causes less than those with eight, whatever it is like; alone it says nothing."""
    jobs = [f"job-{number}" for number in range(30) for _ in range(3)]
    nodes = [f"node-{place}" for _ in range(30) for place in range(3)]
    nobody = np.zeros(90, bool)
    uneven = judged_nodes(
        jobs, nodes, ranks=np.array([8, 8, 1] * 30), has_first_rank=nobody, lateness=np.array([1.0, 2.0, 9.0] * 30)
    )
    assert uneven.nodes == ("node-0", "node-1")
    assert named(uneven) == {"node-1"}


def test_a_lake_of_nothing_to_judge() -> None:
    none = judged_nodes([], [], ranks=np.array([], int), has_first_rank=np.array([], bool), lateness=np.array([]))
    assert none.nodes == ()
    assert not none.late.any()
