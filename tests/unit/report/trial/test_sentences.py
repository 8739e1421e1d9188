"""The verdict of a trial in words."""

from dataclasses import replace

import pytest

from redline.report.trial.sentences import verdict_sentence
from tests.support.made_tunings import trial


@pytest.mark.parametrize(
    ("pairs", "wall_s", "said"),
    [
        (2, 120.0, "Not yet measurable: 2 pairs in 2 minutes; allow about 13 minutes."),
        (1, 3.0, "Not yet measurable: 1 pair in 3 s; allow about 39 s."),
        (5, 0.1, "Not yet measurable: 5 pairs in 1 s; allow about 1 s."),
    ],
)
def test_few_pairs_bound_nothing_and_hear_how_many_it_takes(pairs: int, wall_s: float, said: str) -> None:
    assert verdict_sentence(replace(trial(-0.1, pairs=pairs), wall_s=wall_s)) == said


def test_pairs_that_bound_the_change_are_told_by_it() -> None:
    said = verdict_sentence(trial(0.0, noise=0.3, pairs=10))
    assert said.startswith("Undecided: the change of the time is between ")
    assert "any" not in said
