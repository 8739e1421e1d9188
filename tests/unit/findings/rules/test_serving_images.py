"""Generation of images that calls models more often than it has to."""

import pytest

from tests.support.events import op
from tests.support.rules.matching import claimed_ns, found, matched
from tests.support.rules.model_calls_record import Call, recorded_calls

# RL-C26: a model is called twice in a step for the same latents.


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


# RL-C27: the same input goes through a module in each step.


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


# RL-C28: latents of every denoising step are decoded.


ENLARGED = [op("aten::upsample_nearest2d", start + 850, 10) for start in (0, 1000)]


def decoded(latents: int, result: int, model: int = 2) -> list[Call]:
    return [(0, 0, [latents]), (800, model, [result])]


def test_c28_claims_what_decodes() -> None:
    claimed = claimed_ns(recorded_calls(decoded(0, 1), decoded(2, 3), extra=ENLARGED), "RL-C28")
    assert 2 * 200_000 <= claimed <= 2 * 201_000


@pytest.mark.parametrize(
    "steps",
    [
        (decoded(0, 1, model=0), decoded(2, 3, model=0)),  # a denoiser
        ([(0, 1, [0]), (800, 2, [1])], [(0, 1, [2]), (800, 2, [3])]),  # no denoiser in the loop
        (decoded(0, 1), decoded(2, 1)),  # the same again
        (decoded(0, 1), [(0, 0, [2])], [(0, 0, [3])], [(0, 0, [4])]),  # once
    ],
)
def test_c28_is_silent_where_it_is_no_preview(steps: tuple[list[Call], ...]) -> None:
    assert "RL-C28" not in matched(recorded_calls(*steps, extra=ENLARGED))


def test_c28_is_silent_about_what_makes_nothing_larger() -> None:
    assert "RL-C28" not in matched(recorded_calls(decoded(0, 1), decoded(2, 3)))
