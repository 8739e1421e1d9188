"""Warm-up is told from noise, the interval holds what it promises, and outliers are counted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.calibration.bench import estimate, fastest, outliers, warm_up_end
from redline.calibration.calibration_record import Estimate, rate


def noisy(seed: int, size: int, level: float = 100.0, share: float = 0.01) -> list[float]:
    return list(level * (1 + share * np.random.default_rng(seed).standard_normal(size)))


@pytest.mark.parametrize(("slow", "at"), [(2.0, 3), (1.3, 5), (10.0, 1)])
@pytest.mark.parametrize("seed", range(5))
def test_the_end_of_a_warm_up_is_found(slow: float, at: int, seed: int) -> None:
    series = noisy(seed, 20)
    series[:at] = [slow * time for time in series[:at]]
    assert warm_up_end(series) == at


def test_a_clock_that_rises_slowly_is_warm_up_as_far_as_it_matters() -> None:
    series = [100 + 50 * 0.5**turn for turn in range(16)]
    assert 1 <= warm_up_end(series) <= 5


@pytest.mark.parametrize(
    "series",
    [
        [],
        [5.0],
        [200.0, 100.0, 100.0, 100.0, 100.0],  # too few to tell
        [100.0] * 20,
        [100.0] * 10 + [200.0] * 10,  # slower later is no warm-up
        [101.0] * 5 + [100.0] * 15,  # seen, but it does not matter
    ],
)
def test_what_is_no_warm_up_stays(series: list[float]) -> None:
    assert warm_up_end(series) == 0


def test_noise_is_seldom_taken_for_warm_up() -> None:
    ends = [warm_up_end(noisy(seed, 15, share=0.05)) for seed in range(200)]
    assert sum(end > 0 for end in ends) < 40
    assert max(ends) <= 7


@given(
    st.lists(st.lists(st.floats(1, 1e9), min_size=1, max_size=12), min_size=1, max_size=4),
    st.floats(0, 0.5),
)
def test_an_estimate_lies_in_its_interval_and_noise_only_widens_it(passes: list[list[float]], noise: float) -> None:
    quiet, loud = estimate(passes), estimate(passes, noise)
    assert quiet.low <= quiet.value <= quiet.high
    assert loud.value == quiet.value
    assert loud.low <= quiet.low * (1 + 1e-12)
    assert loud.high >= quiet.high * (1 - 1e-12)
    least = fastest(passes, noise)
    assert least.low <= least.value == min(map(min, passes)) <= least.high


def test_the_interval_holds_the_true_median_as_often_as_it_says() -> None:
    generator = np.random.default_rng(1)
    held = 0
    for _ in range(400):
        found = estimate([list(100 + generator.exponential(10, 15)) for _ in range(2)])
        held += found.low <= 100 + 10 * np.log(2) <= found.high
    assert held >= 0.93 * 400


def test_passes_that_disagree_widen_the_interval() -> None:
    found = estimate([noisy(1, 10, 100), noisy(2, 10, 120)])
    assert found.low < 101
    assert found.high > 119
    assert found.spread > 0.08


@pytest.mark.parametrize("odd", [150.0, 50.0])
def test_a_short_pass_that_differs_is_in_the_interval(odd: float) -> None:
    """Order statistics of all samples together do not see it."""
    found = estimate([[100.0] * 40, [100.0] * 40, [odd] * 4])
    assert found.value == 100
    assert [found.low, found.high] == pytest.approx([min(odd, 100), max(odd, 100)])


def test_without_a_sample_there_is_no_estimate() -> None:
    with pytest.raises(ValueError, match="an estimate needs a sample"):
        estimate([[]])
    with pytest.raises(ValueError, match="an estimate needs a sample"):
        fastest([])


def test_outliers_are_counted_and_do_not_move_the_median() -> None:
    series = [*noisy(3, 30), 300.0, 500.0]
    assert outliers(series) == 2
    found = estimate([series])
    assert found.outliers == 2
    assert found.value == pytest.approx(100, rel=0.01)
    assert outliers([100.0] * 10) == 0


def test_a_rate_turns_the_interval_around() -> None:
    found = rate(1000, Estimate(value=10.0, low=5.0, high=20.0, samples=7, outliers=1))
    assert (found.value, found.low, found.high) == (100e9, 50e9, 200e9)
    assert (found.samples, found.outliers) == (7, 1)
