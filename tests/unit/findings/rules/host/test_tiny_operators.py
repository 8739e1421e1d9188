"""RL-C17: thousands of operators of microseconds each."""

from typing import Any

from tests.support.events import document, op, region
from tests.support.rules.matching import FP32, claimed_ns, described, found, matched, step


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
