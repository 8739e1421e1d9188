"""RL-C16: a model that computes one token more from call to call."""

import pytest

from tests.support.events import Event, document, op
from tests.support.rules.matching import FP32, claimed_ns, described, found, matched, step


def generation(*tokens: int, batch: int = 1, extra: tuple[Event, ...] = ()) -> bytes:
    """Two layers of 100 us for each call of the model."""
    events: list[Event] = [step(0, 0, 1000)]
    for place, length in enumerate(tokens):
        args = described(FP32, [batch, length, 64], [64, 64])
        events += [op("aten::linear", 200 * place + shift, 100, **args) for shift in (0, 100)]
    for place in range(2 * len(tokens)):
        length = tokens[place // 2]
        events.append(op("aten::addmm", 100 * place, 100, **described(FP32, [64], [batch * length, 64], [64, 64])))
    return document([*events, *extra])


@pytest.mark.parametrize("batch", [1, 4])
def test_c16_claims_all_but_one_token(batch: int) -> None:
    data = generation(18, 19, 20, batch=batch)
    assert claimed_ns(data, "RL-C16") == 600_000 * 19 / 20
    (evidence,) = found(data)["RL-C16"].evidence
    assert evidence.values == {"first": "18", "last": "20"}


@pytest.mark.parametrize("tokens", [(1, 1, 1), (16, 1, 1), (18, 19), (1, 2, 3), (20, 25, 27)])
def test_c16_is_silent_with_a_cache_or_other_lengths(tokens: tuple[int, ...]) -> None:
    assert "RL-C16" not in matched(generation(*tokens))


def test_c16_is_silent_in_training() -> None:
    node = op("MmBackward0", 900, 50, **{"Sequence number": 1, "Fwd thread id": 1})
    assert "RL-C16" not in matched(generation(18, 19, 20, extra=(node,)))


def test_c16_sees_that_each_request_begins_anew() -> None:
    data = generation(18, 19, 20, 18, 19)
    (evidence,) = found(data)["RL-C16"].evidence
    assert evidence.values == {"first": "18", "last": "20"}
    assert "RL-C16" not in matched(generation(18, 19, 20, 16, 18))


def test_c16_looks_beyond_a_last_layer_that_computes_one_token() -> None:
    one_token = described(FP32, [9], [1, 64], [64, 9])
    last = tuple(op("aten::addmm", at, 300, **one_token) for at in (600, 900, 1200))
    assert "RL-C16" in matched(generation(18, 19, 20, extra=last))
