"""RL-C14: gradients that the backward pass stores and no optimizer reads."""

from typing import Any

from tests.support.events import Event, document, op, region
from tests.support.rules.matching import FP32, claimed_ns, described, found, matched, step

HEAD, BODY = [8, 64], [64, 64]


def stored(at: float, shape: list[int]) -> list[Event]:
    """A node of 100 us, and the gradient that it leaves."""
    return [
        op(
            "autograd::engine::evaluate_function: AddmmBackward0", at, 100, **{"Sequence number": 1, "Fwd thread id": 1}
        ),
        op("aten::mm", at + 1, 98, **described(FP32, [16, 8], [8, 16])),
        op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", at + 100, 10),
        op("torch::autograd::AccumulateGrad", at + 101, 8, **described(FP32, shape)),
    ]


def job(*updated: list[int], shapes: object = None) -> bytes:
    lists: dict[str, Any] = {
        "Input Dims": [list(updated)] if shapes is None else shapes,
        "Input type": ["TensorList"],
        "Input Strides": [],
        "Concrete Inputs": [""],
    }
    return document(
        [
            step(0, 0, 1000),
            op("aten::linear", 0, 300, **described(FP32, [16, 64], HEAD), **{"Sequence number": 1, "Fwd thread id": 0}),
            *stored(300, HEAD),
            *stored(500, BODY),
            region("Optimizer.step#AdamW.step", 800, 100),
            op("aten::_fused_adamw_", 810, 80, **lists),
        ]
    )


def test_c14_claims_the_backward_pass_after_the_last_used_gradient() -> None:
    data = job(HEAD)
    assert claimed_ns(data, "RL-C14") == 110_000 + 49_000  # two nodes, and calling the product in the first
    (evidence,) = found(data)["RL-C14"].evidence
    assert (evidence.values["gradients"], evidence.values["unused"]) == (2, 1)


def test_c14_is_silent_where_all_are_updated() -> None:
    assert "RL-C14" not in matched(job(HEAD, BODY))


def test_c14_is_silent_where_lists_are_too_long_to_be_recorded() -> None:
    assert "RL-C14" not in matched(job(shapes=[[]]))
