"""Kernels whose results nobody needs: gradients, rows, experts, constants."""

from typing import Any

import pytest

from tests.support.events import Event, document, op, region
from tests.support.rules.matching import FP32, claimed_ns, described, found, matched, step

# RL-C14: gradients that the backward pass stores and no optimizer reads.


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


def unused_gradients_job(*updated: list[int], shapes: object = None) -> bytes:
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
    data = unused_gradients_job(HEAD)
    assert claimed_ns(data, "RL-C14") == 110_000 + 49_000  # two nodes, and calling the product in the first
    (evidence,) = found(data)["RL-C14"].evidence
    assert (evidence.values["gradients"], evidence.values["unused"]) == (2, 1)


def test_c14_is_silent_where_all_are_updated() -> None:
    assert "RL-C14" not in matched(unused_gradients_job(HEAD, BODY))


def test_c14_is_silent_where_lists_are_too_long_to_be_recorded() -> None:
    assert "RL-C14" not in matched(unused_gradients_job(shapes=[[]]))


# RL-C18: dense gradients of large tables of which a step looks up few rows.


TABLE = [1000, 16]


def dense_embedding_gradient_job(*, looked_up: int, tied: bool = False) -> bytes:
    lists: dict[str, Any] = {
        "Input Dims": [[TABLE, [250, 16]]],
        "Input type": ["TensorList"],
        "Input Strides": [],
        "Concrete Inputs": [""],
    }
    events = [
        step(0, 0, 1000),
        op("aten::embedding", 0, 50, **described(FP32, TABLE, [looked_up])),
        op("EmbeddingBackward0", 200, 200, **{"Sequence number": 1, "Fwd thread id": 1}),
        op("aten::embedding_dense_backward", 200, 200, **described(FP32, [looked_up, 16], [looked_up])),
        region("Optimizer.step#AdamW.step", 500, 250),
        op("aten::_fused_adamw_", 500, 250, **lists),
    ]
    if tied:
        events.append(op("aten::linear", 100, 50, **described(FP32, [64, 16], TABLE)))
    return document(events)


def test_c18_claims_the_gradient_and_its_part_of_the_optimizer() -> None:
    data = dense_embedding_gradient_job(looked_up=100)
    calling = 50_000
    assert claimed_ns(data, "RL-C18") == pytest.approx((200_000 + calling) + 0.8 * (250_000 + calling), abs=1)
    (evidence,) = found(data)["RL-C18"].evidence
    assert (evidence.values["table"], evidence.values["looked_up"]) == ("1,000 x 16", "100")


def test_c18_is_silent_where_many_rows_are_looked_up_or_weights_are_tied() -> None:
    assert "RL-C18" not in matched(dense_embedding_gradient_job(looked_up=500))
    assert "RL-C18" not in matched(dense_embedding_gradient_job(looked_up=100, tied=True))


# RL-C22: experts that all compute all tokens.


def all_experts_computed_job(*tokens: int, chosen: bool = True) -> bytes:
    """A gate over four experts and 64 tokens, and experts of 200 us with these tokens."""
    events: list[Event] = [step(0, 0, 1000), op("aten::softmax", 0, 10, **described(FP32, [64, 4]))]
    if chosen:
        events.append(op("aten::max", 10, 10, **described(FP32, [64, 4])))
    for place, rows in enumerate(tokens):
        at, layer = 100 + 200 * place, described(FP32, [32], [rows, 16], [16, 32])
        events.append(op("aten::linear", at, 200, **described(FP32, [rows, 16], [32, 16])))
        events.append(op("aten::addmm", at, 200, **layer))
    return document(events)


def test_c22_claims_all_experts_but_one() -> None:
    data = all_experts_computed_job(64, 64, 64, 64)
    assert claimed_ns(data, "RL-C22") == 0.75 * (800_000 + 50_000)  # with calling the first
    (evidence,) = found(data)["RL-C22"].evidence
    assert (evidence.values["experts"], evidence.values["tokens"]) == ("4", "64")


def test_c22_is_silent_where_experts_get_their_own_tokens() -> None:
    assert "RL-C22" not in matched(all_experts_computed_job(10, 20, 30, 4))


def test_c22_is_silent_without_a_gate() -> None:
    assert "RL-C22" not in matched(all_experts_computed_job(64, 64, 64, 64, chosen=False))
    assert "RL-C22" not in matched(all_experts_computed_job(64, 64, 64))


# RL-C24: batch norms after convolutions in inference.


BATCH, CHANNELS = 8, 16


def convolution(ts: float) -> Event:
    known: dict[str, Any] = {"Input Dims": [[BATCH, 3, 32, 32], [CHANNELS, 3, 3, 3], []]}
    return op("aten::conv2d", ts, 100, **known)


def norm(ts: float, *, training: str = "False", channels: int = CHANNELS) -> Event:
    dims = [[BATCH, channels, 32, 32], [channels], [channels], [channels], [channels], [], [], [], []]
    values = ["", "", "", "", "", training, "0.1", "1e-05", "True"]
    known: dict[str, Any] = {"Input Dims": dims, "Concrete Inputs": values}
    return op("aten::batch_norm", ts, 50, **known)


def test_c24_claims_the_norm() -> None:
    data = document([step(0, 0, 500), convolution(0), norm(100), op("aten::relu_", 150, 50)])
    assert claimed_ns(data, "RL-C24") == 50_000
    assert found(data)["RL-C24"].evidence[0].values["norms"] == 1


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([convolution(0), norm(100, training="True")], id="by the batch's own statistics"),
        pytest.param([convolution(0), norm(100, training="")], id="not recorded"),
        pytest.param([convolution(0), norm(100, channels=32)], id="of something else"),
        pytest.param([convolution(0), op("aten::relu", 100, 20), norm(120)], id="not right after"),
        pytest.param([norm(100)], id="alone"),
        pytest.param(
            [convolution(0), norm(100), op("Backward", 200, 50, **{"Sequence number": 1, "Fwd thread id": 1})],
            id="in training",
        ),
    ],
)
def test_c24_leaves_other_norms_alone(events: list[Event]) -> None:
    assert "RL-C24" not in matched(document([step(0, 0, 500), *events]))
