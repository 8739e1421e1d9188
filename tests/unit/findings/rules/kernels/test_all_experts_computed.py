"""RL-C22: experts that all compute all tokens."""

from tests.support.events import Event, document, op
from tests.support.rules.matching import FP32, claimed_ns, described, found, matched, step


def job(*tokens: int, chosen: bool = True) -> bytes:
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
    data = job(64, 64, 64, 64)
    assert claimed_ns(data, "RL-C22") == 0.75 * (800_000 + 50_000)  # with calling the first
    (evidence,) = found(data)["RL-C22"].evidence
    assert (evidence.values["experts"], evidence.values["tokens"]) == ("4", "64")


def test_c22_is_silent_where_experts_get_their_own_tokens() -> None:
    assert "RL-C22" not in matched(job(10, 20, 30, 4))


def test_c22_is_silent_without_a_gate() -> None:
    assert "RL-C22" not in matched(job(64, 64, 64, 64, chosen=False))
    assert "RL-C22" not in matched(job(64, 64, 64))
