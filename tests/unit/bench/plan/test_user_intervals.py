"""The interval of other people's runs holds eight of ten of them, whichever source is left out."""

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.plan.intervals import by_root
from bench.plan.user_intervals import UserRuns, held, user_interval, widening

RUNS = 60
SOURCES = 12


def runs(logs: NDArray[np.float64], reach: float = 0.0) -> UserRuns:
    """Of as many sources, with situations that promise the same reach."""
    return UserRuns(
        sources=np.array([f"source {at % SOURCES}" for at in range(len(logs))]),
        kinds=np.repeat("usual", len(logs)),
        measured=logs,
        low=np.full(len(logs), -reach),
        high=np.full(len(logs), reach),
    )


def spread(scale: float = 0.3, middle: float = 0.0) -> NDArray[np.float64]:
    return np.random.default_rng(7).normal(middle, scale, RUNS)


def share(own: UserRuns, factor: float) -> float:
    inside = held(own, factor)
    return float(inside.mean() + np.average(inside, weights=by_root(own.sources))) / 2


@pytest.mark.parametrize(("scale", "middle"), [(0.1, 0.0), (0.3, 0.2), (0.5, -0.4)])
def test_the_widening_is_the_least_that_holds_eight_of_ten(scale: float, middle: float) -> None:
    own = runs(spread(scale, middle))
    factor = widening(own)
    assert share(own, factor) >= 0.8
    assert share(own, factor - 0.01) < 0.8


def test_an_interval_holds_runs_of_a_source_that_it_was_made_without() -> None:
    """A source that is far from all others is not held for having been looked at."""
    logs = spread(0.05)
    own = runs(logs)
    far = own.sources == "source 0"
    moved = runs(np.where(far, logs + 3, logs))
    assert not held(moved, 1.0)[far].any()
    assert held(moved, 1.0)[~far].mean() > 0.7


def test_runs_that_their_situation_holds_need_no_more() -> None:
    narrow, wide = runs(spread()), runs(spread(), reach=5.0)
    assert widening(wide) < widening(narrow)
    assert user_interval(wide, "usual").low > user_interval(narrow, "usual").low


def test_it_is_of_one_kind_of_models_and_says_how_many_runs_it_rests_on() -> None:
    every = runs(spread())
    mixed = UserRuns(**{**vars(every), "kinds": np.repeat(["usual", "unusual"], [40, 20])})
    found = user_interval(mixed, "unusual")
    assert (found.runs, found.sources) == (20, SOURCES)
    assert found.low < 1 < found.high
