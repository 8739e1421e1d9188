"""RL-C28: latents of every denoising step are decoded."""

import pytest

from tests.support.events import op
from tests.support.rules.matching import claimed_ns, matched
from tests.support.rules.model_calls_record import Call, recorded_calls

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
