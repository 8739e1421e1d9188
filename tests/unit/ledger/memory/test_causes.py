"""Causes of full memory: each is named first where it is planted, with what it can save, and not on a healthy twin."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import redline
from tests.support.events import document, op
from tests.support.memory_jobs import FLAWED, HEALTHY, LONG_US, MIB, STEPS, said


@pytest.mark.parametrize("code", FLAWED)
def test_a_planted_cause_comes_first_with_what_it_can_save(code: str, tmp_path: Path) -> None:
    job, saves = FLAWED[code]
    first = said(tmp_path, job).causes[0]
    assert (first.code, first.saves_bytes) == (code, saves * MIB)


def test_what_padding_fills_is_not_told_of_recomputation(tmp_path: Path) -> None:
    """Rows of 20 to 24, padded to 110: a fifth is used, and what grows with the square of that is a 25th."""
    result = said(tmp_path, replace(HEALTHY, activations=40, logits=10, padded_to=110))
    first = result.causes[0]
    assert [cause.code for cause in result.causes] == ["RL-M11"]
    assert first.figures["padding_share"] == pytest.approx(0.8)
    assert first.saves_bytes == pytest.approx((1 - 0.2**2) * 50 * MIB, rel=1e-6)


def test_what_earlier_steps_left_is_not_told_of_recomputation(tmp_path: Path) -> None:
    """Without it the activations are too few to be worth it."""
    result = said(tmp_path, replace(HEALTHY, activations=5, left_over=20))
    assert [(cause.code, cause.saves_bytes) for cause in result.causes] == [("RL-M10", 20 * MIB)]
    assert result.causes[0].site == "aten::linear"


@pytest.mark.parametrize(("capacity", "times"), [(70, None), (100, 1 + (90 - 52) / 12), (0, None)])
def test_a_larger_batch_is_told_where_it_fits_twice(capacity: int, times: float | None, tmp_path: Path) -> None:
    """At the peak 40 of weights and 12 of the batch; 90 % of the device may be used."""
    result = said(tmp_path, replace(HEALTHY, capacity=capacity))
    told = [cause.figures["times"] for cause in result.causes]
    assert told == ([] if times is None else [pytest.approx(times)])
    assert ("times the batch" in result.text()) == (times is not None)


def test_a_healthy_job_has_no_cause(tmp_path: Path) -> None:
    result = said(tmp_path, HEALTHY)
    assert result.causes == ()
    assert not result.first.growth


def test_gradients_that_are_added_up_over_batches_are_needed(tmp_path: Path) -> None:
    """Two backward passes before each step of the optimizer."""
    events = replace(HEALTHY, clears_late=True).events()
    second = "autograd::engine::evaluate_function: AddmmBackward0"
    for number in range(STEPS):
        at = LONG_US * number
        events.append(op("aten::linear", at + 62, 2, **{"Sequence number": 100 + number}))
        events.append(op(second, at + 65, 3, **{"Sequence number": 100 + number, "Fwd thread id": 1}))
    (tmp_path / "a.json").write_bytes(document(events))
    assert "RL-M05" not in [cause.code for cause in redline.memory(tmp_path).causes]


def test_a_rank_that_holds_more_is_named_and_limits_the_others(tmp_path: Path) -> None:
    result = said(tmp_path, HEALTHY, replace(HEALTHY, parameters=80), HEALTHY)
    assert result.first.rank == 1
    assert [(cause.code, cause.saves_bytes) for cause in result.causes] == [("RL-M08", 40 * MIB)]


def test_the_page_and_the_record_say_the_same(tmp_path: Path) -> None:
    result = said(tmp_path, replace(HEALTHY, kept=3))
    record = json.loads(result.rendered("json"))
    assert record["causes"][0]["code"] == "RL-M02"
    growth = record["devices"][0]["growth"][0]
    assert (growth["bytes_per_step"], growth["held_bytes"]) == (3 * MIB, 15 * MIB)
    course = record["devices"][0]["course"]
    assert all(len(values) == len(course["at_ns"]) for values in course["accounts"].values())
    page = result.rendered("html")
    assert "<polygon" in page
    assert "RL-M02" in page
    assert "3.000 MiB more in every step" in result.text()
