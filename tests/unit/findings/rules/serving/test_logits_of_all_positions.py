"""RL-C21: a head that computes all positions, of which one is read."""

import pytest

from tests.support.events import Event, document, op
from tests.support.rules.matching import FP32, claimed_ns, described, matched, step

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
