"""The same collective on different ranks: which spans of theirs are one operation."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.job.collectives import MOST_PER_RANK, Arrivals, RankArrivals, Series, arrivals_of, matched
from redline.timeline.timeline import NONE
from tests.support.events import collective, document, kernel, op, read_one, region

WORLD = ("all_reduce", "[0, 1]", 1024)


def rank(
    ends_ns: list[int],
    elements: list[int] | None = None,
    series: Series = WORLD,
    sequence: list[int] | None = None,
) -> RankArrivals:
    """A rank that took part in collectives of one series, which ended at these times."""
    ends = np.array(ends_ns, np.int64)
    arrivals = Arrivals(
        start_ns=ends - 10,
        end_ns=ends,
        series=np.zeros(len(ends), np.int32),
        elements=np.array(elements or [1] * len(ends), np.int64),
        sequence=np.array(sequence or [NONE] * len(ends), np.int64),
    )
    return RankArrivals(arrivals=arrivals, series=(series,))


def operations(ranks: list[RankArrivals]) -> list[dict[int, int]]:
    """For each operation when it ended on each of its ranks."""
    table = matched(ranks)
    table.self_check()
    found: dict[int, dict[int, int]] = {}
    for number, who, end in zip(table.operation.tolist(), table.rank.tolist(), table.end_ns.tolist(), strict=True):
        found.setdefault(number, {})[who] = end
    return list(found.values())


# --- of one rank ------------------------------------------------------------------------------------------------------


def test_only_collectives_that_end_together_are_taken(tmp_path: Path) -> None:
    events = [
        op("a", 0, 5),
        collective(10, 5, name="allreduce"),
        collective(20, 5, name="broadcast"),
        collective(30, 5, name="_allgather_base"),
        collective(40, 5, name="send"),
        kernel("ncclDevKernel_ReduceScatter", 50, 5),
        kernel("gemm", 60, 5),
        region("gloo:all_to_all", 70, 5),
    ]
    found = arrivals_of(read_one(document(events), tmp_path))
    assert [found.series[number][0] for number in found.arrivals.series.tolist()] == [
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "all_to_all",
    ]


def test_times_are_unix_times_of_the_ranks_own_clock(tmp_path: Path) -> None:
    base_ns = 1_790_857_026_000_000_000
    events = [op("a", 10, 5), collective(30, 5, elements=77)]
    found = arrivals_of(read_one(document(events, baseTimeNanoseconds=base_ns), tmp_path)).arrivals
    assert (found.start_ns.tolist(), found.end_ns.tolist()) == ([base_ns + 30_000], [base_ns + 35_000])
    assert found.elements.tolist() == [77]


def test_groups_are_series_of_their_own(tmp_path: Path) -> None:
    events = [
        collective(0, 5, args={"Process Group Ranks": "[0, 1]"}),
        collective(10, 5, args={"Process Group Ranks": "[0, 2]"}),
        collective(20, 5, args={"Process Group Ranks": "", "Process Group Name": "tp"}),
        collective(30, 5, args={"Process Group Ranks": "[0, 1]"}),
    ]
    found = arrivals_of(read_one(document(events), tmp_path))
    assert [name[:2] for name in found.series] == [
        ("all_reduce", "[0, 1]"),
        ("all_reduce", "[0, 2]"),
        ("all_reduce", "tp"),
    ]
    assert found.arrivals.series.tolist() == [0, 1, 2, 0]


def test_a_rank_is_known_by_some_thousands_of_collectives(tmp_path: Path) -> None:
    events = [kernel("ncclDevKernel_AllReduce", 10 * number, 5) for number in range(MOST_PER_RANK + 50)]
    assert len(arrivals_of(read_one(document(events), tmp_path)).arrivals) == MOST_PER_RANK


# --- of several -------------------------------------------------------------------------------------------------------


def test_the_nth_of_a_series_is_one_operation() -> None:
    found = operations([rank([100, 200, 300]), rank([101, 202, 303])])
    assert found == [{0: 100, 1: 101}, {0: 200, 1: 202}, {0: 300, 1: 303}]


def test_series_are_matched_by_name_not_by_number() -> None:
    tensor, pipeline = ("all_gather", "tp", 8), ("all_gather", "pp", 8)
    found = operations([rank([100], series=tensor), rank([500], series=pipeline), rank([102], series=tensor)])
    assert found == [{0: 100, 2: 102}]


def test_a_rank_with_several_series_takes_part_in_each() -> None:
    both = RankArrivals(
        arrivals=Arrivals(
            start_ns=np.array([90, 190, 290]),
            end_ns=np.array([100, 200, 300]),
            series=np.array([0, 1, 0], np.int32),
            elements=np.array([1, 1, 1]),
            sequence=np.full(3, NONE),
        ),
        series=(("all_reduce", "x", 8), ("all_gather", "y", 8)),
    )
    first, second = rank([101, 301], series=both.series[0]), rank([202], series=both.series[1])
    found = operations([both, first, second])
    assert sorted(found, key=str) == sorted([{0: 100, 1: 101}, {0: 300, 1: 301}, {0: 200, 2: 202}], key=str)


def test_the_sequence_number_is_right_where_order_is_wrong() -> None:
    """The second rank's trace lost one in the middle, and begins two later than the first rank's."""
    first = rank([100, 200, 300, 400, 500, 600], sequence=[7, 8, 9, 10, 11, 12])
    second = rank([301, 501, 601], sequence=[9, 11, 12])
    by_order = [rank(one.arrivals.end_ns.tolist()) for one in (first, second)]
    right = [{0: 300, 1: 301}, {0: 500, 1: 501}, {0: 600, 1: 601}]
    assert operations([first, second]) == right
    assert operations(by_order) != right


def test_windows_without_a_number_in_common_share_nothing() -> None:
    assert operations([rank([100, 200], sequence=[1, 2]), rank([100, 200], sequence=[3, 4])]) == []


def test_coalesced_operations_share_a_number_and_are_matched_by_order_within_it() -> None:
    first = rank([100, 150, 200], sequence=[4, 4, 5])
    second = rank([101, 151, 201, 301], sequence=[4, 4, 5, 6])
    assert operations([first, second]) == [{0: 100, 1: 101}, {0: 150, 1: 151}, {0: 200, 1: 201}]


def test_where_one_rank_has_no_numbers_order_counts() -> None:
    assert operations([rank([100, 200], sequence=[8, 9]), rank([101, 201])]) == [{0: 100, 1: 101}, {0: 200, 1: 201}]


@pytest.mark.parametrize("ranks", [[], [rank([1, 2])], [rank([1]), rank([2], series=("all_reduce", "other", 8))]])
def test_nothing_is_shared(ranks: list[RankArrivals]) -> None:
    assert operations(ranks) == []


ENDS = [0, 1_000_000, 3_000_000, 3_500_000, 9_000_000, 9_100_000, 20_000_000, 31_000_000]


@pytest.mark.parametrize("missed", [0, 1, 3])
@pytest.mark.parametrize("cut", [0, 1, 2])
@pytest.mark.parametrize("offset", [0, -50_000_000, 7_000_000_000])
def test_a_rank_whose_window_is_shorter_is_shifted_to_where_it_fits(missed: int, cut: int, offset: int) -> None:
    other = [end + offset + 3 for end in ENDS[missed : len(ENDS) - cut]]
    found = operations([rank(ENDS), rank(other)])
    assert [pair[1] - pair[0] for pair in found] == [offset + 3] * len(other)


def test_windows_of_equal_length_that_began_one_operation_apart() -> None:
    ends = [*ENDS, 40_000_000]
    found = operations([rank(ends[:-1]), rank([end + 3 for end in ends[1:]])])
    assert [pair[1] - pair[0] for pair in found if len(pair) == 2] == [3] * (len(ends) - 2)


def test_a_rank_that_missed_a_step_is_shifted_by_it_in_every_series(tmp_path: Path) -> None:
    """Two buckets a step, of different sizes; steps take about as long each, as they do."""
    steps_us = [0, 10_000, 20_150, 30_100, 40_080]

    def of_rank(number: int, steps: list[int], clock_us: float) -> RankArrivals:
        events = [op("a", clock_us, 5)]
        for at in steps:
            events += [collective(clock_us + at + 100, 50 + number), collective(clock_us + at + 900, 70, elements=9)]
        return arrivals_of(read_one(document(events, rank=number, world_size=2), tmp_path))

    found = operations([of_rank(0, steps_us, 0), of_rank(1, steps_us[1:], 7_000_000)])
    assert len(found) == 8
    assert {pair[1] - pair[0] for pair in found} == {7_000_000_000, 7_000_001_000}


def test_sizes_tell_the_shift_where_distances_do_not() -> None:
    even = [1000 * number for number in range(8)]
    sizes = [5, 6, 7, 8, 5, 6, 7, 9]
    found = operations([rank(even, sizes), rank(even[:4], sizes[4:])])
    assert [pair[0] for pair in found] == even[4:]


@given(st.lists(st.integers(1, 10**6), min_size=2, max_size=30), st.integers(2, 5))
def test_every_operation_has_each_rank_once(gaps: list[int], ranks: int) -> None:
    ends = np.cumsum(gaps).tolist()
    found = operations([rank([end + 5 * who for end in ends]) for who in range(ranks)])
    assert found == [{who: end + 5 * who for who in range(ranks)} for end in ends]
