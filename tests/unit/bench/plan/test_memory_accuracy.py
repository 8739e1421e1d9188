"""The accuracy that is claimed, on rows that nothing was fitted to."""

import json
from importlib.resources import files

import pytest

from bench.plan.memory_accuracy import memory_accuracy
from bench.plan.validation import MemoryAccuracy


@pytest.fixture(scope="module")
def accuracy() -> MemoryAccuracy:
    return memory_accuracy()


def test_peaks_are_within_the_claimed_error(accuracy: MemoryAccuracy) -> None:
    every = accuracy.peaks[-1]
    assert every.stack == "all"
    assert every.rows > 900
    assert every.median < 0.08
    assert every.p90 < 0.20
    assert abs(every.bias) < 0.03


def test_each_stack_is_stated(accuracy: MemoryAccuracy) -> None:
    median = {each.stack: each.median for each in accuracy.peaks}
    assert median["nanotron"] < 0.08
    assert median["bigscience"] < 0.08
    assert median["torchtitan"] < 0.08
    assert {"litgpt", "megatron-bridge"} <= set(median)


def test_the_interval_holds_eight_of_ten(accuracy: MemoryAccuracy) -> None:
    assert 0.75 < accuracy.peaks[-1].covered < 0.85


def test_every_row_is_predicted_or_left_out_for_a_reason(accuracy: MemoryAccuracy) -> None:
    assert sum(accuracy.left_out.values()) < 0.03 * 1907


def test_verdicts_are_rarely_wrong(accuracy: MemoryAccuracy) -> None:
    verdicts = accuracy.verdicts
    assert verdicts.ran + verdicts.failed == 879 + 765
    assert verdicts.false_refusals <= 0.055 * verdicts.ran
    assert verdicts.false_fits <= 0.055 * verdicts.failed
    assert verdicts.false_fits <= 0.05 * verdicts.fits
    assert verdicts.contradicted > 0


def test_constants_say_how_they_were_made() -> None:
    written = json.loads(files("redline.plan.train.memory").joinpath("memory.json").read_text("utf-8"))
    assert "bench/plan/fit_memory.py" in written["about"]
    assert all({"known", "fitted", "rows"} <= set(stack) for stack in written["stacks"].values())
