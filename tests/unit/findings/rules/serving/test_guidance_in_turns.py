"""RL-C26: a model is called twice in a step for the same latents."""

import pytest

from tests.support.rules.matching import claimed_ns, found, matched
from tests.support.rules.model_calls_record import Call, recorded_calls

EMPTY, PROMPT = 0, 1


def guided(latents: int, second: int | None = None) -> list[Call]:
    return [(0, 0, [latents, EMPTY]), (400, 0, [latents if second is None else second, PROMPT])]


def test_c26_claims_the_later_call_of_each_step() -> None:
    data = recorded_calls(guided(2), guided(3), guided(4))
    assert claimed_ns(data, "RL-C26") == 3 * 400_000  # as long as the first; 200 us follow it
    values = found(data)["RL-C26"].evidence[0].values
    assert (values["model"], values["calls"]) == ("Denoiser", 2)


@pytest.mark.parametrize(
    "steps",
    [
        ([(0, 0, [2, EMPTY])], [(0, 0, [3, EMPTY])]),  # one call in a step
        (guided(2, 3), guided(4, 5)),  # nothing shared
        ([(0, 0, [2, 5]), (400, 0, [2, 6])], [(0, 0, [3, 7]), (400, 0, [3, 8])]),  # may depend on the call before
        ([(0, 0, [2, EMPTY]), (400, 0, [2, EMPTY])], [(0, 0, [3, EMPTY]), (400, 0, [3, EMPTY])]),  # the same again
        ([(0, 0, [EMPTY, PROMPT]), (400, 0, [EMPTY, 2])],) * 2,  # nothing new in a step: a benchmark
        ([(0, 0, [2, EMPTY]), (400, 1, [2, PROMPT])], [(0, 0, [3, EMPTY]), (400, 1, [3, PROMPT])]),  # two models
    ],
)
def test_c26_is_silent_where_one_batch_would_not_do(steps: tuple[list[Call], ...]) -> None:
    assert "RL-C26" not in matched(recorded_calls(*steps))


def test_c26_is_silent_where_shapes_differ() -> None:
    data = recorded_calls(guided(2), guided(3), shapes={PROMPT: "float32[9,4]"})
    assert "RL-C26" not in matched(data)
