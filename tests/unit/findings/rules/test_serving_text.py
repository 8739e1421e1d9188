"""Generation of text that computes what it has computed, or what is masked."""

import pytest

from tests.support.events import Event, document, op
from tests.support.rules.host_record import at_ns, evidence
from tests.support.rules.matching import FP32, claimed_ns, described, found, matched, step

# RL-C16: a model that computes one token more from call to call.


def growing_prefix_generation(*tokens: int, batch: int = 1, extra: tuple[Event, ...] = ()) -> bytes:
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
    data = growing_prefix_generation(18, 19, 20, batch=batch)
    assert claimed_ns(data, "RL-C16") == 600_000 * 19 / 20
    (evidence,) = found(data)["RL-C16"].evidence
    assert evidence.values == {"first": "18", "last": "20"}


@pytest.mark.parametrize("tokens", [(1, 1, 1), (16, 1, 1), (18, 19), (1, 2, 3), (20, 25, 27)])
def test_c16_is_silent_with_a_cache_or_other_lengths(tokens: tuple[int, ...]) -> None:
    assert "RL-C16" not in matched(growing_prefix_generation(*tokens))


def test_c16_is_silent_in_training() -> None:
    node = op("MmBackward0", 900, 50, **{"Sequence number": 1, "Fwd thread id": 1})
    assert "RL-C16" not in matched(growing_prefix_generation(18, 19, 20, extra=(node,)))


def test_c16_sees_that_each_request_begins_anew() -> None:
    data = growing_prefix_generation(18, 19, 20, 18, 19)
    (evidence,) = found(data)["RL-C16"].evidence
    assert evidence.values == {"first": "18", "last": "20"}
    assert "RL-C16" not in matched(growing_prefix_generation(18, 19, 20, 16, 18))


def test_c16_looks_beyond_a_last_layer_that_computes_one_token() -> None:
    one_token = described(FP32, [9], [1, 64], [64, 9])
    last = tuple(op("aten::addmm", at, 300, **one_token) for at in (600, 900, 1200))
    assert "RL-C16" in matched(growing_prefix_generation(18, 19, 20, extra=last))


# RL-C20: a cache of keys and values that torch.cat makes longer.


def cache_grown_by_cat_generation(*lengths: int, new: int = 1) -> bytes:
    events = [step(0, 0, 1000), op("aten::mm", 500, 300, **described(FP32, [1, 64], [64, 64]))]
    for place, length in enumerate(lengths):
        args = described(FP32) | {"Input Dims": [[[2, 4, length, 64], [2, 4, new, 64]], []]}
        events.append(op("aten::cat", 100 * place, 100, **args))
    return document(events)


def test_c20_claims_the_copies() -> None:
    assert claimed_ns(cache_grown_by_cat_generation(32, 33, 34), "RL-C20") == 300_000


def test_c20_leaves_other_concatenations_alone() -> None:
    assert "RL-C20" not in matched(cache_grown_by_cat_generation(32, 32, 32))
    assert "RL-C20" not in matched(cache_grown_by_cat_generation(32, 33, 34, new=16))
    assert "RL-C20" not in matched(cache_grown_by_cat_generation(32, 40, 77))


def test_c20_claims_a_store_that_grows_in_training() -> None:
    """Its tensors have two dimensions, and the steps have backward passes."""
    events = [step(0, 0, 1000), op("MmBackward0", 900, 50, **{"Sequence number": 1, "Fwd thread id": 1})]
    for place, length in enumerate((4096, 4352, 4608)):
        args = described(FP32) | {"Input Dims": [[[length, 64], [256, 64]], []]}
        events.append(op("aten::cat", 100 * place, 100, **args))
    assert claimed_ns(document(events), "RL-C20") == 300_000


# RL-C21: a head that computes all positions, of which one is read.


HEAD = op("aten::linear", 100, 400, **described(FP32, [4, 128, 64], [1024, 64]))
SELECT = op("aten::select", 500, 5, **described(FP32, [4, 128, 1024]))


def test_c21_claims_the_head() -> None:
    assert 400_000 <= claimed_ns(document([step(0, 0, 1000), HEAD, SELECT]), "RL-C21") <= 500_000


@pytest.mark.parametrize(
    "events",
    [
        (HEAD,),
        (HEAD, op("aten::softmax", 500, 100, **described(FP32, [4, 128, 1024]))),
        (HEAD, SELECT, op("aten::argmax", 510, 20, **described(FP32, [4, 128, 1024]))),
        (op("aten::linear", 100, 400, **described(FP32, [4, 64], [1024, 64])), SELECT),
    ],
)
def test_c21_is_silent_where_all_logits_are_read(events: tuple[Event, ...]) -> None:
    assert "RL-C21" not in matched(document([step(0, 0, 1000), *events]))


# RL-C29: a cache or padding is far longer than the text.


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
