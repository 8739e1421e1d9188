"""RL-C27: the same input goes through a module in each step."""

import pytest

from tests.support.rules.matching import claimed_ns, matched
from tests.support.rules.model_calls_record import Call, recorded_calls

WORDS = 0


def encoded(latents: int, words: int = WORDS) -> list[Call]:
    return [(0, 0, [latents]), (700, 1, [words])]


def test_c27_claims_calls_with_the_same_input() -> None:
    claimed = claimed_ns(recorded_calls(encoded(1), encoded(2), encoded(3)), "RL-C27")
    assert 3 * 300_000 <= claimed <= 3 * 301_000  # and what is before them in Python


@pytest.mark.parametrize(
    "steps",
    [
        (encoded(1, 2), encoded(3, 4)),  # other words each time
        (encoded(1), encoded(1)),  # a benchmark: all inputs come again
        ([(0, 1, [WORDS])], [(0, 1, [WORDS])]),
        ([(0, 0, [1]), (700, 1, [100])], [(0, 0, [2]), (700, 1, [100])]),  # no tensor at all
    ],
)
def test_c27_is_silent_where_inputs_differ_or_all_of_them_come_again(steps: tuple[list[Call], ...]) -> None:
    assert "RL-C27" not in matched(recorded_calls(*steps))


def test_c27_is_silent_about_a_module_in_training_mode() -> None:
    assert "RL-C27" not in matched(recorded_calls(encoded(1), encoded(2), training=True))
