"""RL-C29: a cache or padding is far longer than the text."""

import pytest

from tests.support.events import document, op
from tests.support.rules.host_record import at_ns, evidence
from tests.support.rules.matching import FP32, claimed_ns, described, found, matched, step

READS_CACHE = described(FP32, [2, 4, 1, 64], [2, 4, 100, 64], [2, 4, 100, 64])
READS_TOKEN = described(FP32, [2, 1, 64], [64, 64])


def called(used: int, tokens: str, mask: str = "bool[2,1,1,100]") -> bytes:
    """Two steps of 1 ms, in which attention takes 500 us and a layer 400 us."""
    events = []
    for number in range(2):
        start = 1000 * number
        events += [
            step(number, start, 1000),
            op("aten::scaled_dot_product_attention", start + 10, 500, **READS_CACHE),
            op("aten::linear", start + 520, 400, **READS_TOKEN),
        ]
    calls = {
        "time_ns": [at_ns(5), at_ns(1005)],
        "model": [0, 0],
        "models": [{"kind": "Model"}],
        "inputs": [[0, 1], [2, 3]],
        "shapes": [tokens, mask] * 2,
        "used": [-1, used] * 2,
    }
    return document(events, **evidence(calls=calls))


def test_c29_claims_what_attention_reads_of_an_empty_cache() -> None:
    data = called(20, "int64[2,1]")
    assert claimed_ns(data, "RL-C29") == 2 * 400_000
    assert found(data)["RL-C29"].evidence[0].values == {"length": "100", "used": "20"}


def test_c29_claims_padding_of_all_operators() -> None:
    data = called(20, "int64[2,100]", mask="int64[2,100]")
    assert claimed_ns(data, "RL-C29") == 2 * (480_000 + 384_000)


@pytest.mark.parametrize("used", [-1, 51, 100])
def test_c29_is_silent_where_positions_are_used_or_not_known(used: int) -> None:
    assert "RL-C29" not in matched(called(used, "int64[2,1]"))
