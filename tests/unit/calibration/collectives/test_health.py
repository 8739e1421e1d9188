"""Slow ranks and slow links, named from samples."""

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.calibration.collectives.health import (
    PairTimes,
    RankTimes,
    pair_speeds,
    pairings,
    pairs_declined,
    rank_speeds,
    tournament,
)

JITTER = (1.0, 1.02, 0.98, 1.01, 0.99, 1.03, 0.97, 1.0)


def rank_times(rank: int, *passes: float, share: float = 1.0) -> RankTimes:
    samples = [[middle * jitter for jitter in JITTER] for middle in passes]
    return RankTimes(rank=rank, host="a", device="cpu", wall_ns=samples, cpu_share=[share] * len(JITTER))


def slow_ranks(*times: RankTimes) -> list[int]:
    return [speed.rank for speed in rank_speeds(times) if speed.slow]


def test_the_slower_of_two_ranks_is_named() -> None:
    assert slow_ranks(rank_times(0, 1e6, 1e6), rank_times(1, 2e6, 2e6, share=0.5)) == [1]
    assert slow_ranks(rank_times(0, 2e6, 2e6), rank_times(1, 1e6, 1e6)) == [0]


def test_its_ratio_and_its_share_of_the_core_are_told() -> None:
    fast, slow = rank_speeds([rank_times(0, 1e6), rank_times(1, 2e6, share=0.5)])
    assert (fast.ratio, slow.ratio) == pytest.approx((1.0, 2.0))
    assert (fast.cpu_share, slow.cpu_share) == (1.0, 0.5)


def test_an_accelerator_has_no_share_of_a_core() -> None:
    times = RankTimes(rank=0, host="a", device="cuda:0", wall_ns=[[1.0] * 6], cpu_share=[])
    assert rank_speeds([times])[0].cpu_share == -1.0


def test_a_rank_that_is_a_little_slower_is_not_named() -> None:
    assert slow_ranks(rank_times(0, 1e6, 1e6), rank_times(1, 1.2e6, 1.2e6)) == []


def test_a_rank_that_was_slow_only_for_a_while_is_not_named() -> None:
    assert slow_ranks(rank_times(0, 1e6, 1e6), rank_times(1, 1e6, 2e6)) == []


def test_half_of_four_ranks_may_be_slow() -> None:
    assert slow_ranks(*(rank_times(rank, 1e6 if rank < 2 else 2e6) for rank in range(4))) == [2, 3]


@given(st.integers(2, 40), st.floats(1.4, 20), st.data())
def test_one_slow_rank_among_many_is_named_and_no_other(ranks: int, factor: float, data: st.DataObject) -> None:
    planted = data.draw(st.integers(0, ranks - 1))
    times = [rank_times(rank, 1e6 * (factor if rank == planted else 1)) for rank in range(ranks)]
    assert slow_ranks(*times) == [planted]


# --- the tournament ---------------------------------------------------------------------------------------------------


@given(st.integers(2, 64))
def test_everybody_meets_everybody_once(ranks: int) -> None:
    rounds = tournament(ranks)
    met = [pair for pairs in rounds for pair in pairs]
    assert sorted(met) == list(combinations(range(ranks), 2))
    assert all(len({rank for pair in pairs for rank in pair}) == 2 * len(pairs) for pairs in rounds)
    assert len(rounds) == (ranks - 1 if ranks % 2 == 0 else ranks)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6))
def test_on_several_nodes_everybody_meets_everybody_once_too(ranks_of_nodes: list[int]) -> None:
    nodes = [node for node, ranks in enumerate(ranks_of_nodes) for _ in range(ranks)]
    rounds = pairings(nodes)
    met = [pair for pairs in rounds for pair in pairs]
    assert sorted(met) == list(combinations(range(len(nodes)), 2))
    assert all(len({rank for pair in pairs for rank in pair}) == 2 * len(pairs) for pairs in rounds)


@given(st.integers(2, 5), st.integers(1, 8))
def test_links_between_nodes_share_their_network_with_as_many_others_in_every_round(count: int, ranks: int) -> None:
    nodes = [node for node in range(count) for _ in range(ranks)]
    for pairs in pairings(nodes):
        crossing = Counter(nodes[rank] for pair in pairs for rank in pair if nodes[pair[0]] != nodes[pair[1]])
        assert set(crossing.values()) <= {ranks}


@pytest.mark.parametrize("ranks", [65, 66, 200, 513])
def test_of_many_ranks_each_meets_a_bounded_number(ranks: int) -> None:
    rounds = pairings([0] * ranks)
    met = [pair for pairs in rounds for pair in pairs]
    assert len(rounds) == 63
    assert len(met) == len(set(met))
    assert {rank for pair in met for rank in pair} == set(range(ranks))


def test_what_the_tournament_leaves_out_is_said() -> None:
    assert pairs_declined(64, 64 * 63 // 2) == ()
    (said,) = pairs_declined(1000, 500 * 63)
    assert said.why == "there are 1,000 ranks: each was measured with at most 63 of the others"


# --- pairs ------------------------------------------------------------------------------------------------------------


def pair_times(latency_ns: float, transfer_ns: float) -> PairTimes:
    return PairTimes(
        latency_ns=[latency_ns * jitter for jitter in JITTER], transfer_ns=[transfer_ns * jitter for jitter in JITTER]
    )


def slow_pairs(times: dict[tuple[int, int], PairTimes], nodes: list[int]) -> list[tuple[int, int]]:
    return [(one.first, one.second) for one in pair_speeds(times, nodes, 1 << 20) if one.slow]


def all_pairs(ranks: int) -> dict[tuple[int, int], PairTimes]:
    return dict.fromkeys(combinations(range(ranks), 2), pair_times(5e4, 1e6))


def test_the_only_pair_is_never_named() -> None:
    assert slow_pairs({(0, 1): pair_times(1e9, 1e12)}, [0, 1]) == []


@given(st.integers(3, 12), st.booleans(), st.data())
def test_one_slow_link_is_named_and_no_other(ranks: int, is_late: bool, data: st.DataObject) -> None:
    times = all_pairs(ranks)
    planted = data.draw(st.sampled_from(sorted(times)))
    times[planted] = pair_times(2e5, 1e6) if is_late else pair_times(5e4, 1e7)
    assert slow_pairs(times, [0] * ranks) == [planted]


@given(st.integers(3, 12), st.data())
def test_a_host_with_a_slow_link_to_all_others_is_in_every_pair_that_is_named(ranks: int, data: st.DataObject) -> None:
    planted = data.draw(st.integers(0, ranks - 1))
    times = {pair: pair_times(5e4, 1e7) if planted in pair else one for pair, one in all_pairs(ranks).items()}
    assert slow_pairs(times, list(range(ranks))) == [pair for pair in times if planted in pair]


def test_links_between_nodes_are_compared_with_each_other_only() -> None:
    nodes = [0, 0, 1, 1]
    times = {
        pair: pair_times(1e4, 1e5) if nodes[pair[0]] == nodes[pair[1]] else pair_times(1e5, 1e6)
        for pair in combinations(range(4), 2)
    }
    assert slow_pairs(times, nodes) == []
    speeds = pair_speeds(times, nodes, 1 << 20)
    assert [one.level for one in speeds] == ["node", "across", "across", "across", "across", "node"]


def test_what_a_link_does_at_its_best_is_told() -> None:
    (one,) = pair_speeds({(0, 1): PairTimes(latency_ns=[5e4, 9e4], transfer_ns=[1e6, 9e6])}, [0, 0], 1 << 20)
    assert (one.latency_ns, one.bytes_per_s) == pytest.approx((5e4, (1 << 20) * 1e3))
    assert (one.latency_ratio, one.bandwidth_ratio) == (1.0, 1.0)


def test_a_link_is_not_named_where_the_usual_one_is_as_slow_most_of_the_time() -> None:
    usual = PairTimes(latency_ns=[4e4, 9e4, 9e4], transfer_ns=[1e6] * 3)
    unlucky = PairTimes(latency_ns=[8.5e4, 9e4, 9e4], transfer_ns=[1e6] * 3)
    assert slow_pairs({(0, 1): usual, (0, 2): unlucky, (1, 2): usual}, [0, 0, 0]) == []
