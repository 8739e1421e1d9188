"""A condition on the step that has just ended."""

from statistics import median_high

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.capture.worker.recording.condition import Condition, LoadCondition, check_condition, is_of_load


@pytest.mark.parametrize(
    ("text", "length_ns"),
    [
        ("step_time>200ms", 200_000_000),
        ("step_time > 0.5 s", 500_000_000),
        (" step_time>.25us ", 250),
        ("step_time>7ns", 7),
    ],
)
def test_a_fixed_limit(text: str, length_ns: int) -> None:
    condition = Condition(text)
    assert not condition.met(length_ns)
    assert condition.met(length_ns + 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "step_time",
        "loss>3",
        "running>-1",
        "running>1.5",
        "waiting",
        "step_time>3",
        "step_time<3ms",
        "step_time>median",
        "x",
    ],
)
def test_what_is_no_condition(text: str) -> None:
    with pytest.raises(ValueError, match="is no condition; write 'step_time>"):
        check_condition(text)


@pytest.mark.parametrize("text", ["running>8", " waiting > 0 ", "running>0"])
def test_a_condition_on_the_load_of_an_engine(text: str) -> None:
    check_condition(text)
    assert is_of_load(text)
    assert not is_of_load("step_time>8ms")


def test_an_engine_that_stays_busy_asks_once() -> None:
    running, waiting = LoadCondition("running>2"), LoadCondition("waiting>0")
    loads = [(2, 0), (3, 0), (9, 4), (2, 1), (3, 0)]
    assert [running.became_met(*load) for load in loads] == [False, True, False, False, True]
    assert [waiting.became_met(*load) for load in loads] == [False, False, True, False, False]


def test_a_step_far_above_the_median() -> None:
    condition = Condition("step_time>1.5*median")
    assert not any(condition.met(length_ns) for length_ns in [10_000, *[100] * 7])  # too few to know what is usual
    assert not condition.met(150)
    assert condition.met(151)


def test_first_steps_of_unknown_length_are_not_counted() -> None:
    condition = Condition("step_time>1.5*median")
    assert not any(condition.met(0) for _ in range(20))
    assert not condition.met(10**9)


@given(st.lists(st.integers(1, 10**9), max_size=150), st.integers(1, 10**10))
def test_the_median_is_that_of_the_last_64_steps(lengths_ns: list[int], last_ns: int) -> None:
    condition = Condition("step_time>2*median")
    for length_ns in lengths_ns:
        condition.met(length_ns)
    recent = lengths_ns[-64:]
    expected = len(recent) >= 8 and last_ns > 2 * median_high(recent)
    assert condition.met(last_ns) == expected
