"""Modes of autograd that were left on: anomaly detection, deterministic fills, graphs in inference."""

from typing import Any

import pytest

from tests.support.events import Event, document, op, span
from tests.support.rules.matching import claimed_ns, found, launched, matched, step

# RL-H24: a mode for debugging was left on: anomaly detection, or filling memory for deterministic results.


def debug_modes_forward() -> list[Event]:
    """An operator that makes a traceback for 100 us before it calls another."""
    return [span("cpu_op", "aten::addmm", 10, 200, args={"Sequence number": 1}), op("aten::expand", 110, 5)]


def backward(checks: int, nodes: int = 4) -> list[Event]:
    """Nodes of 50 us; so many of them look for NaN, for 10 us."""
    events = []
    for number in range(nodes):
        at = 400 + 100 * number
        events += [op("autograd::engine::evaluate_function: MmBackward0", at, 50), op("MmBackward0", at, 30)]
        if number < checks:
            events += [op("aten::isnan", at + 32, 6), op("aten::_is_any_true", at + 39, 4), op("aten::any", at + 40, 2)]
    return events


def test_h24_claims_checks_and_tracebacks() -> None:
    data = document([step(0, 0, 1000), *debug_modes_forward(), *backward(4)])
    gaps_ns = (400 - 210 + 3 * 50 + 4 * 20 + 4 * 7 + 50) * 1000  # of both passes: Python may walk its stack there
    finding = found(data)["RL-H24"]
    values = finding.evidence[0].values
    assert (values["checks"], values["step_ns"]) == (8, 1_000_000)
    assert 100_000 + 4 * 10_000 + 190_000 <= finding.bound_ns <= 140_000 + gaps_ns
    assert finding.fix is not None
    assert "set_detect_anomaly(False)" in finding.fix.message


def fills(number: int, parent: str = "aten::empty") -> list[Event]:
    pairs = ((op(parent, 10 + 50 * one, 40), op("aten::fill_", 20 + 50 * one, 20)) for one in range(number))
    return [event for pair in pairs for event in pair]


def test_h24_claims_the_filling_of_new_memory() -> None:
    data = document([step(0, 0, 1000), *fills(10)])
    assert claimed_ns(data, "RL-H24") == 10 * 20_000
    assert found(data)["RL-H24"].evidence[0].values == {"fills": 10}


def test_h24_claims_kernels_on_a_gpu() -> None:
    events = [step(0, 0, 1000), *backward(4)]
    for number in range(4):
        events += launched("isnan_kernel", 440 + 100 * number, 5, number + 1, at=433 + 100 * number)
    assert claimed_ns(document(events), "RL-H24") >= 4 * 5_000


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(backward(0), id="no checks"),
        pytest.param(backward(1), id="few nodes are checked"),
        pytest.param([*backward(0), op("aten::isnan", 900, 6), op("aten::isnan", 920, 6)], id="checks of the script"),
        pytest.param(fills(9), id="few fills"),
        pytest.param(fills(10, "aten::zero_"), id="fills that are wanted"),
    ],
)
def test_h24_leaves_other_jobs_alone(events: list[Event]) -> None:
    assert "RL-H24" not in matched(document([step(0, 0, 1000), *debug_modes_forward(), *events]))


# RL-H23: inference records a graph for gradients that nobody asks for.


def recorded(name: str, ts: float, dur: float, sequence: int, elements: int = 0) -> Event:
    args: dict[str, Any] = {"Sequence number": sequence}
    if elements:
        args["Input Dims"] = [[elements]]
    return span("cpu_op", name, ts, dur, args=args)


def gradients_in_inference_forward(at: float, first: int) -> list[Event]:
    """A wrapper and the operator in it, which have one number, and another operator."""
    return [
        recorded("aten::linear", at, 300, first),
        recorded("aten::addmm", at + 2, 298, first),
        recorded("aten::relu", at + 400, 100, first + 1, elements=20_000),
    ]


STEPS = [
    step(0, 0, 1000),
    *gradients_in_inference_forward(10, 1),
    step(1, 1000, 1000),
    *gradients_in_inference_forward(1010, 3),
]


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
