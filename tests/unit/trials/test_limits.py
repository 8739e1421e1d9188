"""Limits on a comparison: what can be written, and when one is crossed."""

import pytest

from redline.errors import UsageError
from redline.trials.limits import check, parse
from redline.trials.recordings import difference_of
from tests.support.recorded_trials import job

USUAL = (100, 102, 98, 101)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("slower", "write a limit such as slower>3%"),
        ("slower>3", "write a limit such as slower>3%"),
        ("slower<3%", "write a limit such as slower>3%"),
        ("speed>3%", "there is no 'speed'; there are: slower, math"),
    ],
)
def test_what_cannot_be_written(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("(", "\\(")):
        parse(text)


def test_a_step_that_got_longer_crosses_the_limit() -> None:
    outcome = check(parse("slower > 3 %"), difference_of(job(*USUAL), job(*(1.1 * length for length in USUAL))))
    assert outcome.crossed
    assert "+10.0 % of the step" in outcome.said


def test_within_the_spread_of_the_steps_it_does_not() -> None:
    outcome = check(parse("slower>3%"), difference_of(job(50, 150, 60, 140), job(55, 170, 60, 150)))
    assert not outcome.crossed
    assert "within the spread of the steps" in outcome.said


def test_a_limit_that_is_kept_says_nothing() -> None:
    outcome = check(parse("slower>3%"), difference_of(job(*USUAL), job(*USUAL)))
    assert not outcome.crossed
    assert not outcome.said


def test_an_account_is_held_against_the_step_before() -> None:
    longer = tuple(1.5 * length for length in USUAL)
    assert check(parse("host>20%"), difference_of(job(*USUAL), job(*longer))).crossed
    assert not check(parse("host>30%"), difference_of(job(*USUAL), job(*longer))).crossed
