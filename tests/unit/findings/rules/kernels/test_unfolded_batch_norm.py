"""RL-C24: batch norms after convolutions in inference."""

from typing import Any

import pytest

from tests.support.events import Event, document, op
from tests.support.rules.matching import claimed_ns, found, matched, step

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
