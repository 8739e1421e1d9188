"""Goodput is that of a simulated job, the interval is the best one, and no number breaks either."""

from itertools import product
from math import exp, expm1, inf, log, sqrt
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.plan.job import (
    SECONDS_PER_DAY,
    best_interval,
    checkpoint_share,
    goodput,
    mean_time_between_failures,
)

GPUS = (512, 1024, 2048, 4096, 8192, 16384, 131_072)
RATES_PER_NODE_DAY = (2.34e-3, 3.79e-3, 6.5e-3)
RECOVERIES = ((3600.0, 150.0), (1200.0, 60.0), (600.0, 6.0), (120.0, 0.5))
"""Restart and checkpoint, in seconds."""
CELLS = list(product(GPUS, RATES_PER_NODE_DAY, RECOVERIES))


def rate_of(gpus: int, per_node_day: float) -> float:
    return gpus / 8 * per_node_day / SECONDS_PER_DAY


def exact(rate: float, interval_s: float, restart_s: float, checkpoint_s: float) -> float:
    """As the formula is published."""
    return interval_s / (exp(rate * restart_s) / rate * expm1(rate * (interval_s + checkpoint_s)))


def best_goodput(rate: float, restart_s: float, checkpoint_s: float) -> float:
    interval_s = best_interval(rate, checkpoint_s)
    return float(goodput(failures_per_s=rate, interval_s=interval_s, restart_s=restart_s, checkpoint_s=checkpoint_s))


def simulated(rate: float, interval_s: float, restart_s: float, checkpoint_s: float, intervals: int) -> list[float]:
    """What each interval of a job took. Failures come on a clock of their own, whatever the job does."""
    random = Random(str((rate, restart_s)))  # another sequence of failures for each job
    now = 0.0
    failure = random.expovariate(rate)
    took = []
    for _ in range(intervals):
        began = now
        left = interval_s + checkpoint_s
        while now + left > failure:
            now = failure
            failure = now + random.expovariate(rate)
            left = restart_s + interval_s + checkpoint_s
        now += left
        took.append(now - began)
    return took


@pytest.mark.parametrize("gpus", GPUS)
def test_goodput_is_that_of_a_simulated_job(gpus: int) -> None:
    for per_node_day, (restart_s, checkpoint_s) in product(RATES_PER_NODE_DAY, RECOVERIES):
        rate = rate_of(gpus, per_node_day)
        interval_s = float(best_interval(rate, checkpoint_s))
        intervals = max(1500, round(500 / (rate * (interval_s + checkpoint_s))))  # at least some 500 failures
        took = np.array(simulated(rate, interval_s, restart_s, checkpoint_s, intervals))
        expected = interval_s / best_goodput(rate, restart_s, checkpoint_s)
        error = took.std(ddof=1) / sqrt(len(took))
        assert abs(took.mean() - expected) < 4 * error
        assert error < 0.05 * expected  # or else the line above says nothing


def test_a_job_that_checkpoints_too_rarely_is_simulated_as_well() -> None:
    rate = 1 / 3600
    took = np.array(simulated(rate, 3 * 3600.0, 600.0, 60.0, intervals=3000))
    expected = (
        3 * 3600.0 / float(goodput(failures_per_s=rate, interval_s=3 * 3600.0, restart_s=600.0, checkpoint_s=60.0))
    )
    assert took.mean() == pytest.approx(expected, rel=0.06)


@pytest.mark.parametrize(("gpus", "per_node_day", "recovery"), CELLS)
def test_the_interval_is_the_best_of_all(gpus: int, per_node_day: float, recovery: tuple[float, float]) -> None:
    rate, (restart_s, checkpoint_s) = rate_of(gpus, per_node_day), recovery
    tried = np.geomspace(1.0, 1e6, 20_000)
    best = np.max(goodput(failures_per_s=rate, interval_s=tried, restart_s=restart_s, checkpoint_s=checkpoint_s))
    assert best_goodput(rate, restart_s, checkpoint_s) >= best
    assert best_goodput(rate, restart_s, checkpoint_s) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize(("gpus", "per_node_day", "recovery"), CELLS)
def test_youngs_rule_is_within_a_tenth_of_a_point(
    gpus: int, per_node_day: float, recovery: tuple[float, float]
) -> None:
    rate, (restart_s, checkpoint_s) = rate_of(gpus, per_node_day), recovery
    young = float(
        goodput(
            failures_per_s=rate,
            interval_s=sqrt(2 * checkpoint_s / rate),
            restart_s=restart_s,
            checkpoint_s=checkpoint_s,
        )
    )
    assert 0 <= best_goodput(rate, restart_s, checkpoint_s) - young < 0.001


@given(st.floats(-18, 3), st.floats(-9, 1))
def test_the_interval_is_best_for_any_cost_of_a_checkpoint(cost_power: float, rate_power: float) -> None:
    rate = 10.0**rate_power
    checkpoint_s = 10.0**cost_power / rate
    interval_s = float(best_interval(rate, checkpoint_s))

    def loss(factor: float) -> float:
        """The logarithm of the time per work, which is flat at its least."""
        x = rate * (interval_s * factor + checkpoint_s)
        return float(x + log(-expm1(-x)) - log(interval_s * factor))

    assert loss(1.0) <= loss(1.01) + 1e-12
    assert loss(1.0) <= loss(0.99) + 1e-12


@given(st.floats(-12, -1), st.floats(-1, 6), st.floats(0, 5), st.floats(-3, 4))
def test_the_three_factors_are_the_published_form(
    rate: float, interval: float, restart: float, checkpoint: float
) -> None:
    arguments = (10.0**rate, 10.0**interval, 10.0**restart, 10.0**checkpoint)
    if arguments[0] * sum(arguments[1:]) > 300:
        return  # the published form overflows
    ours = goodput(
        failures_per_s=arguments[0], interval_s=arguments[1], restart_s=arguments[2], checkpoint_s=arguments[3]
    )
    assert ours == pytest.approx(exact(*arguments), rel=1e-9)


@pytest.mark.parametrize(
    ("rate", "interval_s", "restart_s", "checkpoint_s", "expected"),
    [
        (0.0, 90.0, 600.0, 10.0, 0.9),  # no failures: only checkpoints cost
        (0.0, 90.0, 600.0, 0.0, 1.0),
        (0.0, inf, 600.0, 10.0, 1.0),
        (1e-300, 90.0, 600.0, 10.0, 0.9),
        (5e-324, 90.0, 600.0, 10.0, 0.9),
        (1e-3, 0.0, 100.0, 0.0, exp(-0.1)),  # free checkpoints all the time: only restarts cost
        (1e-3, 0.0, 100.0, 1.0, 0.0),
        (1e-3, inf, 100.0, 1.0, 0.0),  # never a checkpoint, never an end
        (1e3, 3600.0, 600.0, 60.0, 0.0),
        (1e300, 1e300, 1e300, 1e300, 0.0),
        (0.01, 900.0, 0.0, 100.0, 9 / expm1(10)),
    ],
)
def test_the_ends_of_the_scale(
    rate: float, interval_s: float, restart_s: float, checkpoint_s: float, expected: float
) -> None:
    share = goodput(failures_per_s=rate, interval_s=interval_s, restart_s=restart_s, checkpoint_s=checkpoint_s)
    assert isinstance(share, float)
    assert share == pytest.approx(expected, rel=1e-12, abs=0)


@pytest.mark.parametrize(
    ("rate", "checkpoint_s", "least_s", "expected"),
    [
        (0.0, 60.0, 0.0, inf),
        (0.0, 0.0, 0.0, inf),
        (1e-3, 0.0, 0.0, 0.0),  # free checkpoints: after every step
        (1e-3, 0.0, 5.0, 5.0),
        (1e-5, 60.0, 9000.0, 9000.0),
        (1e3, 1e3, 0.0, 1e-3),  # hopeless: no more work than the time between failures
    ],
)
def test_intervals_at_the_ends_of_the_scale(rate: float, checkpoint_s: float, least_s: float, expected: float) -> None:
    assert best_interval(rate, checkpoint_s, least_s) == pytest.approx(expected, rel=1e-9)


def test_columns_are_rows_of_numbers() -> None:
    rates = np.array([0.0, 1e-6, 1e-4, 1e-2])
    intervals = best_interval(rates, 6.0, 10.0)
    column = goodput(failures_per_s=rates, interval_s=intervals, restart_s=600.0, checkpoint_s=6.0)
    assert isinstance(intervals, np.ndarray)
    assert isinstance(column, np.ndarray)
    rows = [
        goodput(failures_per_s=rate, interval_s=interval_s, restart_s=600.0, checkpoint_s=6.0)
        for rate, interval_s in zip(rates.tolist(), intervals.tolist(), strict=True)
    ]
    assert column.tolist() == rows
    assert column.tolist() == sorted(rows, reverse=True)
    assert checkpoint_share(np.array([54.0, inf]), 6.0) == pytest.approx(np.array([0.9, 1.0]))


def test_the_mean_time_between_failures() -> None:
    day = 1 / SECONDS_PER_DAY
    assert mean_time_between_failures(0.0) == inf
    assert mean_time_between_failures(day) == pytest.approx(SECONDS_PER_DAY)
