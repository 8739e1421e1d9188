"""Cases are sampled in turn; one that cannot be measured is declined once, with the reason."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.calibration.bench import (
    BenchmarkCase,
    Samples,
    TimingBudget,
    estimate,
    fastest,
    outliers,
    take,
    warm_up_end,
)
from redline.calibration.calibration_record import Estimate, rate
from redline.calibration.device import ProbeDevice
from redline.errors import first_line

EFFORT = TimingBudget(rounds=4, sample_ns=100, call_limit_ns=1000)


class Told(ProbeDevice):
    """A device whose calls last as long as they say."""

    def __init__(self) -> None:
        self.order: list[str] = []

    def timed_ns(self, call: Callable[[], object], repeats: int) -> float:
        told: Any = call()
        self.order.append(told[0])
        return float(told[1])


def case(name: str, time_ns: float) -> BenchmarkCase[str]:
    return BenchmarkCase(key=name, prepare=lambda: lambda: (name, time_ns), about=f"case {name}")


def test_each_round_has_every_case_once() -> None:
    device, samples = Told(), Samples[str]()
    take([case("a", 10), case("b", 20), case("c", 200)], device, EFFORT, samples)
    rounds = device.order[8:]  # each was tried before: three times, but twice where one call is a sample
    assert [sorted(rounds[at : at + 3]) for at in range(0, 12, 3)] == [["a", "b", "c"]] * 4
    assert len({tuple(rounds[at : at + 3]) for at in range(0, 12, 3)}) > 1
    assert samples.passes == {"a": [[10.0] * 4], "b": [[20.0] * 4], "c": [[200.0] * 4]}
    assert samples.estimate("b", 0.0).value == 20


def test_passes_are_kept_apart() -> None:
    samples = Samples[str]()
    for time_ns in (10, 30):
        take([case("a", time_ns)], Told(), EFFORT, samples)
    assert samples.passes == {"a": [[10.0] * 4, [30.0] * 4]}
    assert samples.fastest("a", 0.0).value == 10
    assert samples.fastest("a", 0.0).high == 30


def test_what_cannot_be_measured_is_declined_once_and_not_tried_again() -> None:
    tried = []

    def fails() -> Callable[[], object]:
        tried.append(1)
        raise RuntimeError("not for this type\nand a long story")

    samples = Samples[str]()
    cases = [BenchmarkCase(key=name, prepare=fails, about="fp8") for name in "ab"] + [
        case("slow", 5e9),
        case("good", 10),
    ]
    for _ in range(2):
        take(cases, Told(), EFFORT, samples)
    assert len(tried) == 1
    assert [(one.what, one.why) for one in samples.declines()] == [
        ("fp8", "not for this type"),
        ("case slow", "one call takes 5.0 s"),
    ]
    assert list(samples.passes) == ["good"]


def test_a_call_that_fails_later_costs_only_its_own_case() -> None:
    left = [5]

    def tires() -> tuple[str, float]:
        left[0] -= 1
        if left[0] < 0:
            raise MemoryError
        return "tires", 200.0

    samples = Samples[str]()
    take(
        [BenchmarkCase(key="tires", prepare=lambda: tires, about="case tires"), case("good", 200)],
        Told(),
        EFFORT,
        samples,
    )
    assert samples.passes == {"tires": [[200.0] * 3], "good": [[200.0] * 4]}  # it was tried twice before
    assert samples.declined == {"case tires": "MemoryError"}


def test_a_call_that_takes_far_too_long_is_made_once() -> None:
    device, samples = Told(), Samples[str]()
    take([case("slow", 5e9), case("long", 5000)], device, EFFORT, samples)
    assert device.order == ["slow", "long", "long", "long"]
    assert samples.declined == {"case slow": "one call takes 5.0 s", "case long": "one call takes 0.0 s"}


def test_the_reason_is_one_line_even_where_an_error_says_nothing() -> None:
    assert first_line(MemoryError()) == "MemoryError"
    assert len(first_line(RuntimeError("x" * 1000))) == 200


# --- a budget ---------------------------------------------------------------------------------------------------------


class Hourglass:
    """So many looks at it, each of which costs a second."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def left_s(self) -> float:
        self.seconds -= 1
        return max(0.0, self.seconds)


def test_making_ready_leaves_half_of_the_time_for_samples() -> None:
    device, samples = Told(), Samples[str]()
    cases = [case(name, 200) for name in "abcdefgh"]
    take(cases, device, EFFORT, samples, left_s=Hourglass(20).left_s)
    ready = device.order[: len(device.order) - sum(len(one) for passes in samples.passes.values() for one in passes)]
    assert sorted(set(ready)) == list("abcd")  # the first ones: a wait for two looks each, until half is gone
    assert sorted(samples.passes) == list("abcd")
    assert sum(len(one) for passes in samples.passes.values() for one in passes) == 8


def test_when_time_is_up_nothing_is_tried() -> None:
    device, samples = Told(), Samples[str]()
    take([case("a", 200)], device, EFFORT, samples, left_s=lambda: 0.0)
    assert (device.order, samples.passes) == ([], {})


def test_every_timing_is_told_before_it_begins() -> None:
    told: list[tuple[int, int]] = []
    take([case("a", 200), case("b", 200)], Told(), EFFORT, Samples(), tell=lambda done, of: told.append((done, of)))
    assert told == [(done, 10) for done in range(10)]


def test_what_was_timed_once_is_forgotten() -> None:
    samples = Samples[str](passes={"once": [[1.0]], "twice": [[1.0], [2.0]]})
    samples.forget_single()
    assert list(samples.passes) == ["twice"]


# Warm-up is told from noise, the interval holds what it promises, and outliers are counted.


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
