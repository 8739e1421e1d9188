"""From samples to points, and what was left out."""

import pytest

from redline.calibration.collectives.collective_law import (
    CollectiveCase,
    CollectiveTimings,
    cases_of,
    declined_of,
    points_of,
    repeats,
)

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
