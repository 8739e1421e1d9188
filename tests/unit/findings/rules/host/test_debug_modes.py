"""RL-H24: a mode for debugging was left on: anomaly detection, or filling memory for deterministic results."""

import pytest

from tests.support.events import Event, document, op, span
from tests.support.rules.matching import claimed_ns, found, launched, matched, step


def forward() -> list[Event]:
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
    data = document([step(0, 0, 1000), *forward(), *backward(4)])
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
    assert "RL-H24" not in matched(document([step(0, 0, 1000), *forward(), *events]))
