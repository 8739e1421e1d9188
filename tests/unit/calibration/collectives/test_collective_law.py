"""Groups and sizes, results that are right, latency and rate from times, and the ideal ring."""

from collections.abc import Callable
from math import exp

import pytest
from hypothesis import given as supposing
from hypothesis import strategies as st

from redline.calibration.calibration_record import CollectivePoint, Estimate
from redline.calibration.collectives.collective_law import (
    FEWEST_SIZES,
    OPERATIONS,
    CollectiveCase,
    CollectiveTimings,
    cases_of,
    declined_of,
    due,
    fit,
    given,
    laws,
    lengths,
    level_of,
    levels,
    points_of,
    repeats,
    ring_time_ns,
    size_bytes,
    sizes,
    unseen_errors,
)

SIZES = [4.0 * 4**power for power in range(12)]


def times(latency_ns: float, rate: float) -> list[float]:
    return [latency_ns + size / rate * 1e9 for size in SIZES]


@supposing(st.floats(1e3, 1e6), st.floats(1e8, 1e11))
def test_a_law_is_found_again(latency_ns: float, rate: float) -> None:
    found_ns, found_rate = fit(SIZES, times(latency_ns, rate))
    assert found_ns == pytest.approx(latency_ns, rel=0.05)
    if SIZES[-1] / rate * 1e9 > latency_ns:  # otherwise no size says anything about the rate
        assert found_rate == pytest.approx(rate, rel=0.1)


@supposing(st.lists(st.floats(-0.1, 0.1), min_size=12, max_size=12), st.integers(0, 11))
def test_a_size_that_is_far_off_does_not_bend_the_law(noise: list[float], at: int) -> None:
    measured = [time * exp(error) for time, error in zip(times(1e5, 2e9), noise, strict=True)]
    measured[at] *= 10
    latency_ns, rate = fit(SIZES, measured)
    assert latency_ns == pytest.approx(1e5, rel=0.3)
    assert rate == pytest.approx(2e9, rel=0.8)


def test_errors_are_those_of_sizes_that_were_left_out() -> None:
    assert max(unseen_errors(SIZES, times(1e5, 2e9))) < 0.05
    bent = [time * (3 if number % 2 else 1) for number, time in enumerate(times(1e5, 2e9))]
    assert min(unseen_errors(SIZES, bent)) > 0.5


def point(operation: str, size: int, time_ns: float, group: str = "world") -> CollectivePoint:
    return CollectivePoint(
        operation=operation,
        group=group,
        ranks=4,
        size_bytes=size,
        time_ns=Estimate(value=2 * time_ns, low=time_ns, high=3 * time_ns, samples=9),
        fastest_ns=time_ns,
        algorithm_bytes_per_s=1.0,
        bus_bytes_per_s=1.0,
        correct=True,
    )


def test_there_is_a_law_for_each_operation_and_group_fitted_to_the_fastest() -> None:
    whole = [point("all_reduce", int(size), time) for size, time in zip(SIZES, times(1e5, 2e9), strict=True)]
    pairs = [point("all_reduce", int(size), time, "pair") for size, time in zip(SIZES, times(5e4, 4e9), strict=True)]
    found = {law.group: law for law in laws([*whole, *pairs])}
    assert found["world"].latency_ns == pytest.approx(1e5, rel=0.05)
    assert found["pair"].bytes_per_s == pytest.approx(4e9, rel=0.1)
    assert found["pair"].points == len(SIZES)
    assert found["pair"].error_median <= found["pair"].error_p90 < 0.05


def test_a_barrier_and_a_few_sizes_have_no_law() -> None:
    few = [point("all_reduce", 4 << number, 1e5) for number in range(FEWEST_SIZES - 1)]
    assert laws([point("barrier", 0, 1e5), *few]) == ()


# --- the ring ---------------------------------------------------------------------------------------------------------


def test_the_ring_of_four_by_hand() -> None:
    """Messages of 1 us and 1 byte/ns; 4000 bytes are parts of 1000."""
    expected_ns = {
        "send_recv": 1000 + 4000,
        "all_gather": 3 * (1000 + 1000),
        "reduce_scatter": 3 * (1000 + 1000),
        "all_reduce": 6 * (1000 + 1000),
        "gather": 3 * (1000 + 1000),
        "scatter": 3 * (1000 + 1000),
        "all_to_all": 3 * (1000 + 1000),
        "barrier": 2 * 1000,
    }
    found = {name: ring_time_ns(name, 4, 4000, 1000, 1e9) for name in expected_ns}
    assert found == pytest.approx(expected_ns)


@supposing(st.integers(2, 64), st.floats(1, 1e9), st.floats(100, 1e6), st.floats(1e8, 1e11))
def test_a_broadcast_in_pieces_is_never_slower_than_any_whole_number_of_pieces(
    ranks: int, size: float, latency_ns: float, rate: float
) -> None:
    found = ring_time_ns("broadcast", ranks, size, latency_ns, rate)
    by_pieces = [
        (ranks - 2 + pieces) * (latency_ns + size / rate * 1e9 / pieces) for pieces in (1, 2, 3, 10, 100, 1000)
    ]
    assert found <= min(by_pieces) * (1 + 1e-9)


@supposing(st.sampled_from(sorted(set(OPERATIONS) - {"barrier"})), st.integers(2, 64))
def test_the_bus_bandwidth_of_the_ring_is_that_of_its_links(operation: str, ranks: int) -> None:
    """That is what the factors of nccl-tests are for."""
    size, rate = 1e12, 1e9
    algorithm = size / ring_time_ns(operation, ranks, size, 1.0, rate) * 1e9
    assert algorithm * OPERATIONS[operation].bus_factor(ranks) == pytest.approx(rate, rel=0.01)


# What collectives are by definition, against definitions written down in another way: on lists, rank by rank.

Lists = list[list[float]]


def contents(operation: str, ranks: int, size: int) -> Lists:
    return [given(operation, rank, ranks, size).tolist() for rank in range(ranks)]


def joined(lists: Lists) -> list[float]:
    return [number for numbers in lists for number in numbers]


def sums(lists: Lists) -> list[float]:
    return [sum(column) for column in zip(*lists, strict=True)]


def parts(numbers: list[float], ranks: int) -> Lists:
    length = len(numbers) // ranks
    return [numbers[rank * length : (rank + 1) * length] for rank in range(ranks)]


DEFINITIONS: dict[str, Callable[[Lists, int, int], list[float] | None]] = {
    "broadcast": lambda had, _rank, _ranks: had[0],
    "reduce": lambda had, rank, _ranks: sums(had) if rank == 0 else None,
    "all_reduce": lambda had, _rank, _ranks: sums(had),
    "gather": lambda had, rank, _ranks: joined(had) if rank == 0 else [],
    "all_gather": lambda had, _rank, _ranks: joined(had),
    "scatter": lambda had, rank, ranks: parts(had[0], ranks)[rank],
    "reduce_scatter": lambda had, rank, ranks: parts(sums(had), ranks)[rank],
    "all_to_all": lambda had, rank, ranks: joined([parts(one, ranks)[rank] for one in had]),
    "send_recv": lambda had, rank, ranks: had[(rank + ranks - 1) % ranks],
    "barrier": lambda _had, _rank, _ranks: [],
}


@supposing(st.sampled_from(sorted(OPERATIONS)), st.integers(2, 9), st.integers(1, 40_000), st.data())
def test_what_is_due_is_what_the_operation_is_defined_to_do(
    operation: str, ranks: int, about: int, data: st.DataObject
) -> None:
    size = size_bytes(operation, ranks, about)
    rank = data.draw(st.integers(0, ranks - 1))
    expected = DEFINITIONS[operation](contents(operation, ranks, size), rank, ranks)
    found = due(operation, rank, ranks, size)
    assert (None if found is None else found.tolist()) == expected


@supposing(st.sampled_from(sorted(set(OPERATIONS) - {"barrier"})), st.integers(2, 64), st.integers(0, 1 << 20))
def test_the_size_is_the_larger_of_what_a_rank_gives_and_gets(operation: str, ranks: int, about: int) -> None:
    size = size_bytes(operation, ranks, about)
    buffers = [lengths(operation, rank, ranks, size) for rank in range(ranks)]
    assert size == 4 * max(map(max, buffers))
    assert about <= size < max(about, 1) + 4 * ranks


def test_numbers_that_are_shown_are_easy_to_follow() -> None:
    assert given("all_reduce", 2, 3, 16).tolist() == [20, 21, 22, 23]


def test_a_barrier_has_no_size() -> None:
    assert size_bytes("barrier", 4, 1 << 20) == 0
    assert lengths("barrier", 0, 4, 0) == (0, 0)


@pytest.mark.parametrize("operation", sorted(set(OPERATIONS) - {"barrier", "broadcast", "scatter", "gather"}))
def test_a_result_that_forgets_a_rank_is_told_from_the_right_one(operation: str) -> None:
    right, wrong = due(operation, 0, 3, 24), given(operation, 0, 3, 24)
    assert right is not None
    assert right.tolist() != wrong.tolist()


@pytest.mark.parametrize(
    ("operation", "factor"),
    [
        ("broadcast", 1.0),
        ("reduce", 1.0),
        ("all_reduce", 1.5),
        ("gather", 0.75),
        ("all_gather", 0.75),
        ("scatter", 0.75),
        ("reduce_scatter", 0.75),
        ("all_to_all", 0.75),
        ("send_recv", 1.0),
    ],
)
def test_bus_bandwidth_of_four_ranks_is_as_in_nccl_tests(operation: str, factor: float) -> None:
    assert OPERATIONS[operation].bus_factor(4) == factor


# Which ranks form groups.


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([0, 0], {"world": ((0, 1),)}),
        ([0, 0, 0], {"world": ((0, 1, 2),)}),
        ([0] * 4, {"world": ((0, 1, 2, 3),), "pair": ((0, 1), (2, 3))}),
        ([0] * 6, {"world": ((0, 1, 2, 3, 4, 5),), "half": ((0, 1, 2), (3, 4, 5)), "pair": ((0, 1), (2, 3), (4, 5))}),
        ([0] * 5, {"world": ((0, 1, 2, 3, 4),), "pair": ((0, 1), (2, 3))}),
        ([0, 1, 2], {"world": ((0, 1, 2),)}),
        ([0, 0, 1, 1], {"world": ((0, 1, 2, 3),), "node": ((0, 1), (2, 3)), "across": ((0, 2), (1, 3))}),
        ([1, 1, 0, 0], {"world": ((0, 1, 2, 3),), "node": ((2, 3), (0, 1)), "across": ((2, 0), (3, 1))}),
        ([0, 0, 0, 1, 1], {"world": ((0, 1, 2, 3, 4),), "across": ((0, 3), (1, 4))}),
    ],
)
def test_groups(nodes: list[int], expected: dict[str, object]) -> None:
    assert levels(nodes) == expected


@supposing(st.lists(st.integers(0, 5), min_size=2, max_size=40))
def test_no_rank_is_in_two_groups_of_a_level_and_all_are_of_one_size(nodes: list[int]) -> None:
    for groups in levels(nodes).values():
        ranks = [rank for group in groups for rank in group]
        assert len(ranks) == len(set(ranks))
        assert set(ranks) <= set(range(len(nodes)))
        assert len({len(group) for group in groups}) == 1
        assert min(map(len, groups)) >= 2


def test_the_level_of_a_pair() -> None:
    assert [level_of(0, other, [0, 0, 1]) for other in (1, 2)] == ["node", "across"]


def test_sizes_go_up_to_the_most() -> None:
    assert sizes(1024, step=4) == [4, 16, 64, 256, 1024]
    assert sizes(1000, step=16) == [4, 64]


# From samples to points, and what was left out.

CASE = CollectiveCase(operation="all_reduce", level="world", ranks=4, size_bytes=1000)


def measured(*rows: float, correct: bool = True) -> CollectiveTimings:
    return CollectiveTimings(cases=(CASE,), samples_ns=tuple((row,) for row in rows), correct=(correct,), dropped=())


def test_a_point_has_the_median_the_fastest_and_both_bandwidths() -> None:
    (point,) = points_of(measured(1e6, 2e6, 1e6, 1e6, 0.5e6))
    assert point.time_ns.value == 1e6
    assert point.fastest_ns == 0.5e6
    assert (point.algorithm_bytes_per_s, point.bus_bytes_per_s) == pytest.approx((1e6, 1.5e6))
    assert point.correct


def test_a_wrong_result_stays_wrong() -> None:
    assert not points_of(measured(1e6, 1e6, 1e6, correct=False))[0].correct


def test_every_operation_is_measured_at_every_size_in_every_group() -> None:
    found = cases_of({"world": ((0, 1, 2, 3),), "pair": ((0, 1), (2, 3))}, [4, 16, 64])
    assert len(found) == len(set(found))
    sizes = {(case.operation, case.level): [] for case in found}  # type: dict[tuple[str, str], list[int]]
    for case in found:
        sizes[case.operation, case.level].append(case.size_bytes)
    assert sizes["all_reduce", "world"] == [4, 16, 64]
    assert sizes["all_gather", "world"] == [16, 64]  # 4 bytes are not enough for four parts
    assert sizes["all_gather", "pair"] == [8, 16, 64]
    assert sizes["barrier", "pair"] == [0]
    assert {case.ranks for case in found if case.level == "pair"} == {2}


def test_sizes_that_would_take_too_long_are_said_once() -> None:
    left_out = tuple(
        CollectiveCase(operation="reduce", level="across", ranks=2, size_bytes=size)
        for size in (16 << 20, 1 << 20, 4 << 20)
    )
    (said,) = declined_of(CollectiveTimings(cases=(), samples_ns=(), correct=(), dropped=left_out), 0.5)
    assert said.what == "reduce (across) of 1.05 MB and more"
    assert said.why == "one call takes longer than 0.5 s"


@pytest.mark.parametrize(("once_ns", "expected"), [(1e3, 1000), (1e5, 10), (1e6, 3), (4e7, 2), (5e8, 1), (0.0, 10**6)])
def test_a_sample_is_a_few_calls_at_least_unless_they_are_long(once_ns: float, expected: int) -> None:
    assert repeats(once_ns, 1e6) == expected
