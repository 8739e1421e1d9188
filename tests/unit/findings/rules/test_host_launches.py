"""The host launches kernels, or calls operators, more slowly than they run."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.events import document, op, region
from tests.support.rules.host import small_kernels, stepping
from tests.support.rules.matching import FP32, claimed_ns, described, found, launched, matched, step

# RL-H01: the host launches small kernels more slowly than the device runs them, the same ones every step.


def test_h01_claims_all_gaps_where_steps_repeat() -> None:
    data = document(stepping(30, 30, 30))
    # not: 1 us before the first kernel, in which the device may have been busy, and 122 us after the last
    assert claimed_ns(data, "RL-H01") == 3 * (1000 - 150) * 1000 - 1_000 - 122_000
    assert "RL-H02" not in matched(data)


@pytest.mark.parametrize("kernels", [(19,), (19, 19, 19)])
def test_h01_h02_leave_a_handful_of_kernels_alone(kernels: Sequence[int]) -> None:
    assert not {"RL-H01", "RL-H02"} & set(matched(document(stepping(*kernels))))


def test_h01_leaves_steps_alone_that_differ_by_a_few_kernels() -> None:
    seen = matched(document(stepping(30, 30, 28)))
    assert "RL-H02" in seen
    assert "RL-H01" not in seen


def test_h01_sees_launches_beside_long_pauses_of_the_host_but_does_not_claim_these() -> None:
    """In each step 15 kernels, a pause of 6 ms, 15 kernels."""
    events = [step(number, 10_000 * number, 10_000) for number in range(3)]
    for number in range(3):
        events += small_kernels(15, 10_000 * number, 100 * number + 1)
        events += small_kernels(15, 10_000 * number + 6_500, 100 * number + 50)
    data = document(events)
    assert "RL-H01" in matched(data)
    assert claimed_ns(data, "RL-H01") < 3 * 4_000_000


def test_h01_counts_kernels_in_the_step_that_launched_them() -> None:
    """The device lags: the last kernels of each step run in the next one, but every step launches as many."""
    late = [event if event["name"] != "add" else {**event, "ts": event["ts"] + 300} for event in stepping(30, 30, 30)]
    assert "RL-H01" in matched(document(late))


# RL-H02: the host launches small kernels more slowly than the device runs them, and no step repeats another.


@pytest.mark.parametrize("kernels", [(30, 25, 30), (30,)])
def test_h02_takes_over_where_steps_do_not_repeat(kernels: Sequence[int]) -> None:
    data = document(stepping(*kernels))
    busy_us, tail_us = 5 * sum(kernels), 122
    assert claimed_ns(data, "RL-H02") == (1000 * len(kernels) - busy_us - tail_us - 1) * 1000
    assert "RL-H01" not in matched(data)


@pytest.mark.parametrize(("kernel_us", "gap_us", "is_bound"), [(25, 40, True), (25, 10, False), (60, 40, False)])
def test_h02_compares_kernels_with_the_gap_before_each(kernel_us: float, gap_us: float, is_bound: bool) -> None:
    """No cliff at 20 us: kernels that are shorter than the gap before each wait for their launch."""
    period_us = kernel_us + gap_us
    events = [step(0, 0, 30 * period_us)]
    for index in range(30):
        ts = period_us * index
        events += launched("add", ts + 3, kernel_us, index + 1, at=ts)
    assert ("RL-H02" in matched(document(events))) is is_bound


# RL-C17: thousands of operators of microseconds each.


def job(number: int, *, us: float = 8, apart: float = 20, large_us: float = 0) -> bytes:
    length = number * apart + large_us + 100
    events = [step(0, 0, length), op("aten::mm", 0, large_us, **described(FP32, [64, 64], [64, 64]))]
    shapes = described(FP32, [8, 8])
    events += [op("aten::tanh", large_us + place * apart, us, **shapes) for place in range(number)]
    return document(events)


def test_c17_claims_the_step_without_large_operators() -> None:
    data = job(1000, large_us=1000)
    assert abs(claimed_ns(data, "RL-C17") - 20_000_000) <= 200_000
    (evidence,) = found(data)["RL-C17"].evidence
    assert (evidence.values["tiny"], evidence.values["operators"]) == (1000, 1001)


def test_c17_leaves_few_operators_alone() -> None:
    assert "RL-C17" not in matched(job(900))


def test_c17_leaves_operators_alone_that_are_called_fast_enough() -> None:
    assert "RL-C17" not in matched(job(1200, us=19))


def test_c17_leaves_operators_alone_that_compute_for_longer_than_calling_them_takes() -> None:
    assert "RL-C17" not in matched(job(1200, us=60, apart=90))


def test_c17_takes_no_python_work_between_few_operators_for_calling() -> None:
    assert "RL-C17" not in matched(job(1200, us=60, apart=180))


def test_c17_leaves_loops_between_the_steps_of_a_training_alone() -> None:
    node = "autograd::engine::evaluate_function: AddmmBackward0"
    known: dict[str, Any] = {"Sequence number": 1, "Fwd thread id": 1}
    forward: dict[str, Any] = {"Sequence number": 1}
    events = [step(0, 0, 25_000), op("aten::addmm", 0, 300, **forward), op(node, 300, 300, **known)]
    events += [region("Optimizer.step#AdamW.step", 600, 100), op("aten::_fused_adamw_", 600, 100)]
    events += [op("aten::mul", 1000 + 20 * at, 8) for at in range(1100)]
    assert "RL-C17" not in matched(document(events))
