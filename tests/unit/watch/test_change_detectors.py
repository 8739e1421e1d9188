"""Tests for changes: what is named, when, and what is not."""

import numpy as np
import numpy.typing as npt
import pytest

from redline.watch.change_detectors import LEARNING, LEARNING_AGAIN, ChangeDetectors, DetectedChanges

Floats = npt.NDArray[np.float64]
FLOOR, DRIFT = 0.004, 0.05
NOISE = 0.01


def noise(windows: int, series: int = 1, seed: int = 0, correlation: float = 0.0) -> Floats:
    random = np.random.default_rng(seed)
    values = NOISE * random.standard_normal((windows, series))
    for window in range(1, windows):
        values[window] = correlation * values[window - 1] + np.sqrt(1 - correlation**2) * values[window]
    return values


def detected(values: Floats) -> list[tuple[int, DetectedChanges]]:
    """The windows in which anything changed."""
    detectors = ChangeDetectors()
    detectors.add_series(values.shape[1], FLOOR, DRIFT)
    every = [(window, detectors.update(row)) for window, row in enumerate(values)]
    return [(window, changes) for window, changes in every if changes.changed.any()]


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_a_jump_is_named_with_its_third_window(sign: int, correlation: float) -> None:
    values = noise(80, correlation=correlation)
    values[50:] += sign * 0.15
    (window, changes), *others = detected(values)
    assert not others
    assert window == 52
    assert changes.jumped.all()
    assert changes.windows.tolist() == [3]
    assert changes.size[0] == pytest.approx(sign * 0.15, abs=0.03)


def test_it_says_which_jump_is_large_enough() -> None:
    """Jumps of that size are named in time for nearly all noise, and half as large ones hardly ever."""
    named = {1.0: 0, 0.5: 0}
    for factor in named:
        for seed in range(20):
            values, detectors = noise(43, seed=seed), ChangeDetectors()
            detectors.add_series(1, FLOOR, DRIFT)
            for row in values[:40]:
                detectors.update(row)
            jump = factor * detectors.smallest_jump(0)
            named[factor] += any(detectors.update(row + jump).changed[0] for row in values[40:])
    assert named[1.0] >= 17
    assert named[0.5] <= 3


@pytest.mark.parametrize("count", [1, 2])
def test_outliers_are_no_change(count: int) -> None:
    """However large they are: it takes three windows."""
    values = noise(80)
    values[50 : 50 + count] += 5.0
    assert not detected(values)


def test_nothing_is_said_while_the_job_is_learned() -> None:
    values = noise(LEARNING)
    values[LEARNING // 2 :] += 1.0
    assert not detected(values)


def test_a_change_is_said_once_and_the_new_level_is_the_usual_one() -> None:
    values = noise(200)
    values[50:120] += 0.2
    (first, up), (second, down) = detected(values)
    assert (first, second) == (52, 122)
    assert up.size[0] > 0 > down.size[0]


def test_a_slow_drift_is_named_by_its_size() -> None:
    values = noise(300)
    values[:, 0] += np.clip((np.arange(300) - 60) * 0.0015, 0, None)
    window, changes = detected(values)[0]
    assert changes.drifted[0]
    assert 0.05 < changes.size[0] < 0.12
    assert 0.05 / 0.0015 < window - 60 < 0.12 / 0.0015


def test_a_wave_of_a_day_is_no_drift() -> None:
    values = noise(500) + 0.02 * np.sin(np.arange(500) * 2 * np.pi / 144)[:, None]
    detectors = ChangeDetectors()
    detectors.add_series(1, 0.007, 0.10)
    assert not any(detectors.update(row).changed[0] for row in values)


def test_noise_without_a_change_raises_no_alarm() -> None:
    assert not detected(noise(1500, series=8, correlation=0.4))


def test_a_value_that_is_missing_changes_nothing() -> None:
    values = noise(80, series=2)
    values[45:60, 0] = np.nan
    values[60:, 0] += 0.2
    (window, changes), *others = detected(values)
    assert not others
    assert window == 62
    assert changes.changed.tolist() == [True, False]


def test_a_series_that_comes_later_is_learned_first() -> None:
    detectors = ChangeDetectors()
    detectors.add_series(1, FLOOR, DRIFT)
    values = noise(120, series=2)
    for row in values[:40]:
        detectors.update(row[:1])
    detectors.add_series(1, FLOOR, DRIFT)
    values[40 + LEARNING // 2 : 40 + LEARNING, 1] += 1.0
    assert not any(detectors.update(row).changed.any() for row in values[40 : 40 + LEARNING])


def test_what_it_holds_does_not_grow() -> None:
    detectors = ChangeDetectors()
    detectors.add_series(4, FLOOR, DRIFT)

    def held_bytes() -> int:
        return sum(column.nbytes for column in vars(detectors).values() if isinstance(column, np.ndarray))

    sizes = set()
    for row in noise(LEARNING + LEARNING_AGAIN + 100, series=4):
        detectors.update(row)
        sizes.add(held_bytes())
    assert len(sizes) == 1
