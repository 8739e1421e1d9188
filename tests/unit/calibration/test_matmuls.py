"""The law of matmuls gives back the constants of made-up times, and says how wrong it is on shapes it has not seen."""

import time
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redline.calibration.calibration_record import Estimate, KernelPoint, Law
from redline.calibration.compute import FEWEST, fit_law
from redline.calibration.matmuls import MatmulShape, products

Constants = tuple[float, float, float]
"""FLOP/s, bytes per second, nanoseconds."""

SMALLEST = MatmulShape(32, 32, 32).cost(2, 2)


def machine(compute_power: float, ridge: float, share: float) -> Constants:
    """So that some shapes are limited by arithmetic, some by memory, and the smallest by the fixed time."""
    compute, memory = 10**compute_power, 10**compute_power / ridge
    smallest_ns = max(SMALLEST.flops / compute, SMALLEST.bytes / memory) * 1e9
    return compute, memory, share * smallest_ns


MACHINES = st.builds(machine, st.floats(11, 15), st.floats(20, 300), st.floats(1.5, 200))


def time_of(product: MatmulShape, constants: Constants) -> float:
    compute, memory, fixed_ns = constants
    cost = product.cost(2, 2)
    return max(cost.flops / compute, cost.bytes / memory) * 1e9 + fixed_ns


def point(product: MatmulShape, time_ns: float, spread: float = 0.02) -> KernelPoint:
    cost = product.cost(2, 2)
    interval = Estimate(value=time_ns, low=time_ns * (1 - spread), high=time_ns * (1 + spread), samples=20)
    return KernelPoint(
        family="matmul", dtype="bf16", shape=str(product), flops=cost.flops, bytes=cost.bytes, time_ns=interval
    )


def timed(constants: Constants, noise: float = 0.0, seed: int = 0, spread: float = 0.02) -> list[KernelPoint]:
    """All shapes of a sweep, on a machine that obeys the law but for noise."""
    generator = np.random.default_rng(seed)
    factors = np.exp(noise * generator.standard_normal(len(products(quick=False))))
    shapes = zip(products(quick=False), factors, strict=True)
    return [point(product, time_of(product, constants) * factor, spread) for product, factor in shapes]


def fitted(points: Sequence[KernelPoint]) -> Law:
    law = fit_law(points)
    assert law is not None
    return law


def values(law: Law) -> Constants:
    return law.compute_flops_per_s.value, law.memory_bytes_per_s.value, law.fixed_ns.value


@settings(max_examples=10, deadline=None)
@given(MACHINES)
def test_without_noise_the_constants_are_found(constants: Constants) -> None:
    law = fitted(timed(constants))
    assert values(law) == pytest.approx(constants, rel=0.01)
    assert law.error_median < 0.01


@pytest.mark.parametrize("seed", range(3))
def test_its_error_is_of_shapes_that_the_fit_has_not_seen(seed: int) -> None:
    few = timed(machine(13, 100, 20), noise=0.3, seed=seed)[::4]  # so few that the fit follows the noise
    law = fitted(few)
    compute, memory, fixed_ns = values(law)
    predicted_ns = [max(one.flops / compute, one.bytes / memory) * 1e9 + fixed_ns for one in few]
    seen = [abs(time_ns / one.time_ns.value - 1) for time_ns, one in zip(predicted_ns, few, strict=True)]
    assert law.error_median > 2 * np.median(seen)


@settings(max_examples=10, deadline=None)
@given(MACHINES, st.integers(0, 1000))
def test_with_noise_they_are_found_about(constants: Constants, seed: int) -> None:
    law = fitted(timed(constants, noise=0.03, seed=seed))
    assert values(law) == pytest.approx(constants, rel=0.25)
    assert law.error_median < 0.15
    assert law.error_median <= law.error_p90


@settings(max_examples=10, deadline=None)
@given(st.lists(st.floats(1.0, 1e9), min_size=FEWEST, max_size=12), st.floats(0, 50))
def test_any_times_give_positive_constants_inside_their_intervals(times_ns: list[float], spread: float) -> None:
    points = [point(product, time) for product, time in zip(products(quick=False), times_ns, strict=False)]
    law = fitted(points)
    for constant in (law.compute_flops_per_s, law.memory_bytes_per_s, law.fixed_ns):
        assert 0 < constant.low <= constant.value <= constant.high
    assert law.points == len(points)


MACHINE = (3e14, 1e12, 5e3)


def test_one_shape_that_is_far_off_changes_little() -> None:
    points = timed(MACHINE)
    product = products(quick=False)[3]
    points[3] = point(product, 5 * time_of(product, MACHINE))
    law = fitted(points)
    assert values(law) == pytest.approx(MACHINE, rel=0.05)
    assert law.error_median < 0.05


def test_intervals_hold_the_constants_of_most_noisy_machines() -> None:
    laws = [fitted(timed(MACHINE, noise=0.05, seed=seed, spread=0.1)) for seed in range(10)]
    inside = [
        constant.low <= true <= constant.high
        for law in laws
        for constant, true in zip((law.compute_flops_per_s, law.memory_bytes_per_s, law.fixed_ns), MACHINE, strict=True)
    ]
    assert sum(inside) >= 0.9 * len(inside)


def test_uncertain_times_widen_the_intervals() -> None:
    sure, unsure = (fitted(timed(MACHINE, spread=spread)) for spread in (0.01, 0.2))
    assert unsure.compute_flops_per_s.spread > 5 * sure.compute_flops_per_s.spread
    assert values(sure) == values(unsure)


def test_the_same_times_give_the_same_law() -> None:
    points = timed(MACHINE, noise=0.05)
    assert fit_law(points) == fit_law(points[::-1])


def test_the_law_predicts_what_it_was_fitted_to() -> None:
    points = timed(MACHINE)
    law = fitted(points)
    assert [law.time_ns(one.flops, one.bytes) for one in points] == pytest.approx(
        [one.time_ns.value for one in points], rel=0.01
    )


def test_few_shapes_have_no_law() -> None:
    assert fit_law(timed(MACHINE)[: FEWEST - 1]) is None
    assert fit_law(timed(MACHINE)[:FEWEST]) is not None


def test_a_fit_is_fast() -> None:
    points = timed(MACHINE, noise=0.1)
    began_s = time.process_time()
    fit_law(points)
    assert time.process_time() - began_s < 2.0  # a fifth of a second where nothing else runs
