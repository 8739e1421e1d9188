"""RL-C13: forward operators inside the backward pass; gradients of gradients are not recomputation."""

from tests.support.events import Event, document, op
from tests.support.rules.matching import FP32, claimed_ns, described, found, matched, step

FORWARD = {"Sequence number": 1, "Fwd thread id": 0}
BACKWARD = {"Sequence number": 1, "Fwd thread id": 1}


def linear(at: float, rows: int) -> Event:
    return op("aten::linear", at, 100, **described(FP32, [rows, 64], [64, 64]), **FORWARD)


def job(*, rows_again: int | None) -> bytes:
    again = [] if rows_again is None else [linear(510, rows_again)]
    node = op("MmBackward0", 500, 300, **described(FP32, [32, 64]), **BACKWARD)
    return document([step(0, 0, 1000), linear(0, 32), node, *again])


def test_c13_claims_what_is_computed_again() -> None:
    assert claimed_ns(job(rows_again=32), "RL-C13") == 110_000  # from the begin of the node
    first, _ = found(job(rows_again=32))["RL-C13"].evidence
    assert first.values == {"operators": 1, "recomputed_ns": 110_000, "step_ns": 1_000_000}


def test_c13_is_silent_without_it() -> None:
    assert "RL-C13" not in matched(job(rows_again=None))


def test_c13_leaves_gradients_of_gradients_alone() -> None:
    assert "RL-C13" not in matched(job(rows_again=16))  # a call that the forward pass did not make
