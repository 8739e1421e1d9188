"""Latency and rate from times, and the ideal ring."""

from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.calibration.calibration_record import CollectivePoint, Estimate
from redline.calibration.collectives.collective_law import (
    FEWEST_SIZES,
    OPERATIONS,
    fit,
    laws,
    ring_time_ns,
    unseen_errors,
)

SIZES = [4.0 * 4**power for power in range(12)]


def times(latency_ns: float, rate: float) -> list[float]:
    return [latency_ns + size / rate * 1e9 for size in SIZES]


@given(st.floats(1e3, 1e6), st.floats(1e8, 1e11))
def test_a_law_is_found_again(latency_ns: float, rate: float) -> None:
    found_ns, found_rate = fit(SIZES, times(latency_ns, rate))
    assert found_ns == pytest.approx(latency_ns, rel=0.05)
    if SIZES[-1] / rate * 1e9 > latency_ns:  # otherwise no size says anything about the rate
        assert found_rate == pytest.approx(rate, rel=0.1)


@given(st.lists(st.floats(-0.1, 0.1), min_size=12, max_size=12), st.integers(0, 11))
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


@given(st.integers(2, 64), st.floats(1, 1e9), st.floats(100, 1e6), st.floats(1e8, 1e11))
def test_a_broadcast_in_pieces_is_never_slower_than_any_whole_number_of_pieces(
    ranks: int, size: float, latency_ns: float, rate: float
) -> None:
    found = ring_time_ns("broadcast", ranks, size, latency_ns, rate)
    by_pieces = [
        (ranks - 2 + pieces) * (latency_ns + size / rate * 1e9 / pieces) for pieces in (1, 2, 3, 10, 100, 1000)
    ]
    assert found <= min(by_pieces) * (1 + 1e-9)


@given(st.sampled_from(sorted(set(OPERATIONS) - {"barrier"})), st.integers(2, 64))
def test_the_bus_bandwidth_of_the_ring_is_that_of_its_links(operation: str, ranks: int) -> None:
    """That is what the factors of nccl-tests are for."""
    size, rate = 1e12, 1e9
    algorithm = size / ring_time_ns(operation, ranks, size, 1.0, rate) * 1e9
    assert algorithm * OPERATIONS[operation].bus_factor(ranks) == pytest.approx(rate, rel=0.01)
