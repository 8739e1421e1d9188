"""The interval of a sequence of pairs: valid however often one looks, whatever the noise, and sharp enough."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.trials.paired_sequence import ALPHA, LEAST_PAIRS, MOST_PAIRS, TrialVerdict, decide, estimate, excludes

Values = npt.NDArray[np.float64]
RUNS = 800


def _noise(kind: str, blocks: int, random: np.random.Generator) -> Values:
    """Logarithms of the time of blocks in the order in which they ran."""
    white = random.normal(0.0, 1.0, blocks)
    if kind == "skewed":
        return random.lognormal(0.0, 1.0, blocks)
    if kind == "spikes":
        return white / 2 + (random.random(blocks) < 0.1) * random.exponential(8.0, blocks)
    if kind == "correlated":
        for at in range(1, blocks):
            white[at] += 0.84 * white[at - 1]
    if kind == "drift":
        white += np.linspace(0.0, 30.0, blocks)
    return white


def _pairs(kind: str, spread: float, change: float, random: np.random.Generator) -> tuple[list[float], list[float]]:
    """Times without and with a change, in pairs of random order."""
    blocks = spread * _noise(kind, 2 * MOST_PAIRS, random).reshape(MOST_PAIRS, 2)
    changed_first = random.random(MOST_PAIRS) < 0.5
    after = np.where(changed_first, blocks[:, 0], blocks[:, 1])
    before = np.where(changed_first, blocks[:, 1], blocks[:, 0])
    return np.exp(before).tolist(), (np.exp(after) * (1 + change)).tolist()


@pytest.mark.parametrize("kind", ["white", "skewed", "spikes", "correlated", "drift"])
def test_no_change_is_rarely_taken_for_one_however_often_one_looks(kind: str) -> None:
    random = np.random.default_rng(17)
    wrong = sum(excludes(*_pairs(kind, 0.05, 0.0, random), 0.0) for _ in range(RUNS))
    assert wrong <= ALPHA * RUNS


@pytest.mark.parametrize("kind", ["white", "skewed"])
@pytest.mark.parametrize("change", [-0.2, 0.02])
def test_the_interval_holds_the_true_change(kind: str, change: float) -> None:
    random = np.random.default_rng(18)
    lost = sum(excludes(*_pairs(kind, 0.05, change, random), change) for _ in range(RUNS))
    assert lost <= ALPHA * RUNS


@pytest.mark.parametrize(("change", "least"), [(0.01, 0.5), (0.02, 0.9), (0.05, 0.99), (0.1, 1.0)])
def test_it_finds_changes_within_the_budget(change: float, least: float) -> None:
    """Blocks whose times spread by 1.4 %, so that pairs do by 2 %."""
    random = np.random.default_rng(19)
    found = sum(excludes(*_pairs("white", 0.014, change, random), 0.0) for _ in range(RUNS))
    assert found >= least * RUNS


def test_a_clear_change_is_found_by_the_least_number_of_pairs_or_little_more() -> None:
    before, after = [1.0] * 8, [1.5] * 8
    first = next(count for count in range(1, 9) if decide(before[:count], after[:count]).verdict != "undecided")
    assert LEAST_PAIRS <= first <= 8


def test_verdicts() -> None:
    before = [1.0 + 0.001 * (at % 3) for at in range(40)]
    assert decide(before, [0.8 * one for one in before]).verdict is TrialVerdict.FASTER
    assert decide(before, [1.2 * one for one in before]).verdict is TrialVerdict.SLOWER
    same = [one * (1 + 0.0004 * (-1) ** at) for at, one in enumerate(before)]
    assert decide(before, same).verdict is TrialVerdict.SAME
    assert decide(before[:3], [0.5] * 3).verdict is TrialVerdict.UNDECIDED


@given(
    st.lists(st.floats(0.5, 2.0), min_size=6, max_size=30),
    st.floats(0.1, 10.0),
    st.integers(0, 2**32 - 1),
)
def test_bounds_surround_the_estimate_and_move_with_the_times(times: list[float], factor: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    others = [time * random.uniform(0.8, 1.25) for time in times]
    known = estimate(times, others)
    assert known.low <= known.change <= known.high
    scaled = estimate(times, [factor * other for other in others])
    assert scaled.change + 1 == pytest.approx(factor * (known.change + 1), rel=1e-6)
    assert (scaled.high + 1) / factor == pytest.approx(known.high + 1, rel=1e-3)
