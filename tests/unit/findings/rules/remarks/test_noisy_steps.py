"""RL-R07, a remark: too few steps, or too different ones, to tell a change from noise."""

import pytest

from tests.support.events import document
from tests.support.rules.matching import found, launched, step


def steps(*lengths: float) -> bytes:
    events, at = [], 0.0
    for number, length in enumerate(lengths):
        events += [step(number, at, length), *launched("gemm", at + 2, length - 2, number + 1, at=at)]
        at += length
    return document(events)


def test_r07_fires_on_few_or_uneven_steps() -> None:
    assert found(steps(100, 100))["RL-R07"].evidence[0].values == {"steps": 2}
    # The step of 200 is not of usual length; the others are 120 and 80 in turn: 20 of 100.
    (evidence,) = found(steps(120, 80, 200, 120, 80))["RL-R07"].evidence
    assert evidence.values == {"steps": 5, "spread_share": pytest.approx(0.2)}


def test_r07_is_silent_on_even_steps() -> None:
    assert "RL-R07" not in found(steps(100, 100, 100))
    assert "RL-R07" not in found(steps(300, 100, 105, 95))


def test_r07_counts_the_steps_that_every_rank_has() -> None:
    assert found(steps(100, 100, 100), steps(100, 100))["RL-R07"].evidence[0].values == {"steps": 2}
