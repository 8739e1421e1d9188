"""RL-C18: dense gradients of large tables of which a step looks up few rows."""

from typing import Any

import pytest

from tests.support.events import document, op, region
from tests.support.rules.matching import FP32, claimed_ns, described, found, matched, step

TABLE = [1000, 16]


def job(*, looked_up: int, tied: bool = False) -> bytes:
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
    data = job(looked_up=100)
    calling = 50_000
    assert claimed_ns(data, "RL-C18") == pytest.approx((200_000 + calling) + 0.8 * (250_000 + calling), abs=1)
    (evidence,) = found(data)["RL-C18"].evidence
    assert (evidence.values["table"], evidence.values["looked_up"]) == ("1,000 x 16", "100")


def test_c18_is_silent_where_many_rows_are_looked_up_or_weights_are_tied() -> None:
    assert "RL-C18" not in matched(job(looked_up=500))
    assert "RL-C18" not in matched(job(looked_up=100, tied=True))
