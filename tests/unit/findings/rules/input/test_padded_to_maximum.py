"""RL-C15: batches of different lengths that are padded to one."""

import pytest

from tests.conftest import document, op
from tests.unit.findings.conftest import claimed_ns, described, found, matched, step


def job(*lengths: int, padded: int = 100) -> bytes:
    events = [step(0, 0, 1000), op("aten::mm", 500, 400, **described("float", [100, 64], [64, 64]))]
    for place, length in enumerate(lengths):
        args = described("long int", [8, length]) | {"Concrete Inputs": ["", f"[0, {padded - length}]", "0."]}
        events.append(op("aten::constant_pad_nd", 10 * place, 1, **args))
    return document(events)


def test_c15_claims_what_the_square_of_the_length_saves() -> None:
    data = job(40, 60)
    assert claimed_ns(data, "RL-C15") == pytest.approx(0.75 * 402_000, rel=0.01)
    (evidence,) = found(data)["RL-C15"].evidence
    assert evidence.values == {"length": 50, "padded": 100, "padding_share": 0.5}


@pytest.mark.parametrize("lengths", [(), (50,), (50, 50), (95, 96)])
def test_c15_is_silent_without_padding_or_with_one_length(lengths: tuple[int, ...]) -> None:
    assert "RL-C15" not in matched(job(*lengths))
