"""RL-C20: a cache of keys and values that torch.cat makes longer."""

from tests.support.events import document, op
from tests.support.rules.matching import FP32, claimed_ns, described, matched, step


def generation(*lengths: int, new: int = 1) -> bytes:
    events = [step(0, 0, 1000), op("aten::mm", 500, 300, **described(FP32, [1, 64], [64, 64]))]
    for place, length in enumerate(lengths):
        args = described(FP32) | {"Input Dims": [[[2, 4, length, 64], [2, 4, new, 64]], []]}
        events.append(op("aten::cat", 100 * place, 100, **args))
    return document(events)


def test_c20_claims_the_copies() -> None:
    assert claimed_ns(generation(32, 33, 34), "RL-C20") == 300_000


def test_c20_leaves_other_concatenations_alone() -> None:
    assert "RL-C20" not in matched(generation(32, 32, 32))
    assert "RL-C20" not in matched(generation(32, 33, 34, new=16))
    assert "RL-C20" not in matched(generation(32, 40, 77))


def test_c20_claims_a_store_that_grows_in_training() -> None:
    """Its tensors have two dimensions, and the steps have backward passes."""
    events = [step(0, 0, 1000), op("MmBackward0", 900, 50, **{"Sequence number": 1, "Fwd thread id": 1})]
    for place, length in enumerate((4096, 4352, 4608)):
        args = described(FP32) | {"Input Dims": [[[length, 64], [256, 64]], []]}
        events.append(op("aten::cat", 100 * place, 100, **args))
    assert claimed_ns(document(events), "RL-C20") == 300_000
