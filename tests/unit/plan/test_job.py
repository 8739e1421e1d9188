"""A whole job: what is stated adds up, what is not known has a low and a high end, and failures are never left out."""

from itertools import product
from math import exp, expm1, inf, log, sqrt
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.errors import UsageError
from redline.plan.job import (
    SECONDS_PER_DAY,
    FailureRate,
    FailureScenario,
    JobCost,
    JobRequest,
    Recovery,
    ThreePointEstimate,
    Writes,
    band_rates,
    band_recoveries,
    best_interval,
    checkpoint_share,
    goodput,
    mean_time_between_failures,
    published,
    rate_named,
    recovery_named,
    whole_job,
)

NEVER = FailureRate(id="given", failures_per_node_day=0.0)
FREE = Recovery(id="given", restart_s=0.0, checkpoint_s=0.0)


def job(**changed: Any) -> JobRequest:
    """Like Llama 3 405B: 16,384 GPUs, 16M tokens per step, 15T tokens."""
    given: dict[str, Any] = {
        "step_s": ThreePointEstimate(5.0, 5.5, 6.0),
        "tokens_per_step": 16e6,
        "tokens": 15e12,
        "devices": 16_384,
    }
    return JobRequest(**{**given, **changed})


def case_of(cost: JobCost, rate: str, recovery: str) -> FailureScenario:
    return next(case for case in cost.cases if (case.rate.id, case.recovery.id) == (rate, recovery))


def test_a_job_without_failures_is_steps_times_step_time() -> None:
    cost = whole_job(job(price_per_device_hour=2.0, device_power_w=700.0), rates=(NEVER,), recoveries=(FREE,))
    assert cost.job.steps == 937_500
    assert cost.goodput == ThreePointEstimate(1, 1, 1)
    assert cost.days == cost.ideal_days
    assert cost.days.likely == pytest.approx(937_500 * 5.5 / 86_400)
    assert cost.device_hours.likely == pytest.approx(16_384 * 937_500 * 5.5 / 3600)
    assert cost.money is not None
    assert cost.money.high == pytest.approx(2 * 16_384 * 937_500 * 6.0 / 3600)
    assert cost.energy_wh is not None
    assert cost.energy_wh.low == pytest.approx(16_384 * 937_500 * 5.0 / 3600 * 700 * 0.76)
    assert cost.cases[0].failures == 0
    assert cost.cases[0].mean_time_between_failures_s == inf


def test_the_last_step_is_a_whole_one() -> None:
    assert job(tokens=16e6 + 1).steps == 2


def test_what_is_not_given_is_not_shown() -> None:
    cost = whole_job(job())
    assert cost.money is None
    assert cost.energy_wh is None
    assert cost.job.checkpoint_bytes is None
    assert cost.job.write_s is None


def test_failures_are_spanned_where_nothing_is_said_about_them() -> None:
    cost = whole_job(job())
    assert len(cost.cases) == 12
    assert sum(case.in_band for case in cost.cases) == 6
    assert cost.goodput.low == case_of(cost, "rsc-1", "automatic").goodput == pytest.approx(0.723, abs=5e-4)
    assert cost.goodput.likely == case_of(cost, "llama-3", "automatic").goodput == pytest.approx(0.808, abs=5e-4)
    assert cost.goodput.high == case_of(cost, "rsc-2", "asynchronous").goodput == pytest.approx(0.943, abs=5e-4)
    assert cost.days.low == pytest.approx(cost.ideal_days.low / cost.goodput.high)
    assert cost.days.likely == pytest.approx(cost.ideal_days.likely / cost.goodput.likely)
    assert cost.days.high == pytest.approx(cost.ideal_days.high / cost.goodput.low)


def test_failures_of_llama_3_are_those_that_were_counted() -> None:
    """419 in 54 days, and more than 90 % of the time effective."""
    cost = whole_job(job(tokens=16e6 * 54 * 86_400 / 5.5 * 0.917))
    case = case_of(cost, "llama-3", "asynchronous")
    assert case.goodput == pytest.approx(0.917, abs=5e-4)
    assert case.failures == pytest.approx(419, rel=0.01)
    assert case.mean_time_between_failures_s / 3600 == pytest.approx(3.09, abs=0.01)


def test_what_is_given_is_not_spanned() -> None:
    mine = FailureRate(id="given", failures_per_node_day=0.001)
    one = whole_job(job(), rates=(mine,), recoveries=(recovery_named("manual"),))
    assert len(one.cases) == 1
    assert one.goodput == ThreePointEstimate.exactly(one.cases[0].goodput)
    some = whole_job(job(), rates=(mine,))
    assert [case.in_band for case in some.cases] == [False, True, True, False]
    assert some.goodput.low < some.goodput.high


def test_a_job_that_never_ends_is_infinite() -> None:
    cost = whole_job(job(), rates=(FailureRate(id="given", failures_per_node_day=1e6),))
    assert cost.goodput == ThreePointEstimate(0, 0, 0)
    assert cost.days.low == inf


def test_a_checkpoint_of_bloom_is_as_large_as_it_was() -> None:
    """2.3 TB were reported for 176 billion parameters, written in 40 s."""
    bloom = job(parameters=176.2e9, write_bytes_per_s=2.3e12 / 40)
    assert bloom.checkpoint_bytes == pytest.approx(2.3e12, rel=0.08)
    assert bloom.write_s == pytest.approx(40, rel=0.08)


def test_slow_storage_costs_who_waits_for_it() -> None:
    slow = job(parameters=400e9, write_bytes_per_s=10e9)  # 560 s
    cost = whole_job(slow)
    waiting = case_of(cost, "llama-3", "automatic")
    assert waiting.recovery.checkpoint_s == pytest.approx(560)
    assert waiting.goodput < case_of(whole_job(job()), "llama-3", "automatic").goodput
    background = case_of(cost, "llama-3", "asynchronous")
    assert background.recovery.checkpoint_s == 6
    assert background.recovery.restart_s == pytest.approx(600 + 560)
    assert background.interval_s == pytest.approx(560)  # no checkpoint before the last one is stored
    assert case_of(cost, "llama-3", "standby") == case_of(whole_job(job()), "llama-3", "standby")


def test_a_checkpoint_in_the_background_counts_once_it_is_stored() -> None:
    """The time to write, added to the restart, is what a simulated job loses by falling back one checkpoint more."""
    rate, interval_s, restart_s, checkpoint_s, write_s = 1 / 7200, 900.0, 600.0, 6.0, 300.0
    random, now, useful, done, stored = Random(2), 0.0, 0.0, 0.0, 0.0
    failure = random.expovariate(rate)
    written = -inf  # when the latest checkpoint will be stored
    while useful < 40_000 * interval_s:
        if now + interval_s + checkpoint_s <= failure:
            now += interval_s + checkpoint_s
            stored, done, written = done, done + interval_s, now + write_s
            useful = done
            continue
        done = done if written <= failure else stored
        now, failure = failure, failure + random.expovariate(rate)
        while now + restart_s > failure:
            now, failure = failure, failure + random.expovariate(rate)
        now, written = now + restart_s, -inf
    predicted = goodput(
        failures_per_s=rate, interval_s=interval_s, restart_s=restart_s + write_s, checkpoint_s=checkpoint_s
    )
    assert done / now == pytest.approx(float(predicted), abs=0.004)


def test_checkpoints_are_no_rarer_than_the_job_is_long_and_no_denser_than_steps() -> None:
    short = whole_job(job(tokens=16e6 * 10, devices=8))
    assert all(case.interval_s == pytest.approx(55.0) for case in short.cases)
    long_steps = whole_job(job(step_s=ThreePointEstimate.exactly(3000.0), devices=131_072))
    assert case_of(long_steps, "rsc-1", "standby").interval_s == 3000
    assert whole_job(job(tokens=1), rates=(NEVER,)).cases[0].interval_s == pytest.approx(5.5)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"step_s": ThreePointEstimate(0.0, 1.0, 2.0)}, "the step time must be a number above 0, not 0"),
        ({"tokens": 0}, "the number of tokens must be a number above 0, not 0"),
        ({"tokens_per_step": -1}, "tokens per step must be a number above 0, not -1"),
        ({"devices": 0}, "the number of devices must be a number above 0, not 0"),
        ({"device_power_w": float("nan")}, "power per device must be a number above 0, not nan"),
        ({"power_share": 0.0}, "the share of rated power must be a number above 0, not 0"),
        ({"parameters": -7.0}, "parameters must be a number above 0, not -7"),
        (
            {"checkpoint_bytes_per_parameter": 0.0},
            "bytes of a checkpoint per parameter must be a number above 0, not 0",
        ),
        ({"write_bytes_per_s": inf}, "the write bandwidth must be a number above 0, not inf"),
        ({"price_per_device_hour": -2.0}, "a price per GPU-hour must be 0 or more, not -2"),
        ({"pue": 0.9}, "PUE is the power of the whole building per power of its computers: 1 or more, not 0.9"),
    ],
)
def test_what_makes_no_sense_is_explained(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        job(**changed)
    assert str(caught.value) == message


def test_pue_and_price_of_nothing_are_allowed() -> None:
    cost = whole_job(job(price_per_device_hour=0.0, device_power_w=700.0, pue=1.2))
    plain = whole_job(job(device_power_w=700.0))
    assert cost.money == ThreePointEstimate(0, 0, 0)
    assert cost.energy_wh is not None
    assert plain.energy_wh is not None
    assert cost.energy_wh.likely == pytest.approx(1.2 * plain.energy_wh.likely)


def test_a_mean_restart_is_on_the_safe_side_of_restarts_that_differ() -> None:
    """With heavy tails, the median is not: 222 s against a mean of 2,334 s, as published for one job."""
    rate = 1 / (12 * 3600)
    mean_s, median_s = 2334.0, 222.0
    sigma = np.sqrt(2 * np.log(mean_s / median_s))
    restarts = median_s * np.exp(sigma * np.random.default_rng(3).standard_normal(400_000))
    left = float(np.mean(np.exp(-rate * restarts)))  # in the place of e^(-rate restart), when restarts differ
    assert exp(-rate * mean_s) < left < exp(-rate * median_s)
    assert left - exp(-rate * mean_s) < 0.02


def test_every_way_to_write_is_known() -> None:
    assert {recovery.recovery.writes for recovery in whole_job(job()).cases} == set(Writes)


# Published failure rates are what their sources say, and a name that is unknown is explained.


def test_every_figure_says_where_it_is_from() -> None:
    rates, recoveries = published().rates, published().recoveries
    assert all(rate.system and rate.scale and rate.source for rate in rates)
    assert all(recovery.what and recovery.source for recovery in recoveries)
    assert len({rate.id for rate in rates}) == len(rates)
    assert len({recovery.id for recovery in recoveries}) == len(recoveries)


def test_rates_rise_and_recoveries_get_faster() -> None:
    rates = [rate.failures_per_s(1) for rate in published().rates]
    assert rates == sorted(rates)
    costs = [(recovery.restart_s, recovery.checkpoint_s) for recovery in published().recoveries]
    assert costs == sorted(costs, reverse=True)


@pytest.mark.parametrize(
    ("name", "counted"),
    [
        ("llama-3", 419 / 54 / 2048),
        ("skt-b200", 10 / 55 / 63),
        ("h100-field-high", 8 / 2000),
        ("h100-field-low", 8 / 5000),
        ("gb200-field-high", 72 / 1000),
        ("gb200-field-low", 72 / 3000),
    ],
)
def test_rates_follow_from_what_was_counted(name: str, counted: float) -> None:
    assert rate_named(name).failures_per_node_day == pytest.approx(counted, rel=2e-3)


@pytest.mark.parametrize(("gpus", "hours"), [(16_384, 1.80), (131_072, 0.225)])
def test_metas_projections_follow_from_its_rate(gpus: int, hours: float) -> None:
    assert 1 / rate_named("rsc-1").failures_per_s(gpus) / 3600 == pytest.approx(hours, rel=3e-3)


def test_a_plan_spans_three_clusters_and_two_recoveries() -> None:
    assert [rate.id for rate in band_rates()] == ["rsc-2", "llama-3", "rsc-1"]
    assert [recovery.id for recovery in band_recoveries()] == ["automatic", "asynchronous"]
    assert recovery_named("Asynchronous").writes is Writes.BACKGROUND


def test_a_rate_counts_devices_not_nodes() -> None:
    """Or else a rack of 72 would fail as seldom as a server of 8."""
    servers = FailureRate(id="mine", failures_per_node_day=0.004, devices_per_node=8)
    racks = FailureRate(id="mine", failures_per_node_day=0.036, devices_per_node=72)
    assert servers.failures_per_s(720) == pytest.approx(racks.failures_per_s(720)) == pytest.approx(0.36 / 86_400)


def test_unknown_names_are_explained() -> None:
    with pytest.raises(UsageError) as rate:
        rate_named("ours")
    assert str(rate.value) == (
        "no published failure rate is called 'ours': use tpu-v4, h100-field-low, ft-hsdp, rsc-2, gb200-field-low, "
        "skt-b200, llama-3, h100-field-high, rsc-1, gb200-field-high, or failures per node and day"
    )
    with pytest.raises(UsageError) as recovery:
        recovery_named("prayer")
    assert str(recovery.value) == ("no way to recover is called 'prayer': use manual, automatic, asynchronous, standby")


def test_figures_that_make_no_sense_are_explained() -> None:
    with pytest.raises(UsageError, match=r"^failures per node and day must be a number of 0 or more, not -1$"):
        FailureRate(id="given", failures_per_node_day=-1)
    with pytest.raises(UsageError, match=r"^the seconds of a restart must be a number of 0 or more, not nan$"):
        Recovery(id="given", restart_s=float("nan"), checkpoint_s=1)
    with pytest.raises(UsageError, match=r"^the seconds of a checkpoint must be a number of 0 or more, not inf$"):
        Recovery(id="given", restart_s=1, checkpoint_s=float("inf"))


# Goodput is that of a simulated job, the interval is the best one, and no number breaks either.

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
