"""A whole job: what is stated adds up, what is not known has a low and a high end, and failures are never left out."""

from math import exp, inf
from random import Random
from typing import Any

import numpy as np
import pytest

from redline.errors import UsageError
from redline.plan.job import (
    FailureRate,
    FailureScenario,
    JobCost,
    JobRequest,
    Recovery,
    ThreePointEstimate,
    Writes,
    goodput,
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
