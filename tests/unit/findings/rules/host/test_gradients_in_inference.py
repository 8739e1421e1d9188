"""RL-H23: inference records a graph for gradients that nobody asks for."""

from typing import Any

import pytest

from tests.support.events import Event, document, op, span
from tests.support.rules.matching import claimed_ns, found, launched, matched, step


def recorded(name: str, ts: float, dur: float, sequence: int, elements: int = 0) -> Event:
    args: dict[str, Any] = {"Sequence number": sequence}
    if elements:
        args["Input Dims"] = [[elements]]
    return span("cpu_op", name, ts, dur, args=args)


def forward(at: float, first: int) -> list[Event]:
    """A wrapper and the operator in it, which have one number, and another operator."""
    return [
        recorded("aten::linear", at, 300, first),
        recorded("aten::addmm", at + 2, 298, first),
        recorded("aten::relu", at + 400, 100, first + 1, elements=20_000),
    ]


STEPS = [step(0, 0, 1000), *forward(10, 1), step(1, 1000, 1000), *forward(1010, 3)]


def test_h23_claims_recording_and_fresh_memory_on_a_cpu() -> None:
    data = document(STEPS)
    # of each step: 2 us before the inner operator and 5 us of it, 5 us and 80,000 bytes at 0.25 ns of the other
    assert claimed_ns(data, "RL-H23") == 2 * (2_000 + 5_000 + 5_000 + 20_000)
    finding = found(data)["RL-H23"]
    assert finding.evidence[0].values == {"nodes": 2}
    assert "outside of the recorded steps" in finding.evidence[-1].message
    assert finding.fix is not None


def test_h23_claims_what_the_device_waits_for_on_a_gpu() -> None:
    events = [*STEPS]
    for number, at in enumerate((20, 420, 1020, 1420)):
        events += launched("gemm", at + 3, 30, number + 1, at=at)
    assert 0 < claimed_ns(document(events), "RL-H23") <= 40_000


def modes(training: bool, grad_enabled: bool) -> dict[str, Any]:
    return {"version": 1, "facts": {"modes": {"training": training, "grad_enabled": grad_enabled}}}


def test_h23_is_sure_where_modes_were_recorded() -> None:
    finding = found(document(STEPS, redline=modes(training=False, grad_enabled=True)))["RL-H23"]
    assert "outside" not in finding.evidence[-1].message


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(document(STEPS, redline=modes(training=True, grad_enabled=True)), id="training mode"),
        pytest.param(document(STEPS, redline=modes(training=False, grad_enabled=False)), id="no gradients"),
        pytest.param(document(STEPS[:4]), id="one step"),
        pytest.param(document([*STEPS, op("AddmmBackward0", 700, 20)]), id="a backward pass"),
        pytest.param(document([step(0, 0, 1000), op("aten::mm", 10, 300), step(1, 1000, 1000)]), id="no graph"),
    ],
)
def test_h23_is_silent_in_training_and_without_a_graph(data: bytes) -> None:
    assert "RL-H23" not in matched(data)
