"""The numbers of a ladder: rungs multiply from the start, the whole is its own measurement, and they may disagree."""

from dataclasses import replace
from math import inf
from statistics import median

import pytest

from redline.numerics import Numerics
from redline.report.tune.ladder import LadderTime, ladder_rows
from redline.trials.trial_result import Stopped, Timed, TrialResult
from redline.tuning.tune_result import Ladder, Objective
from tests.support.made_tunings import (
    FASTER,
    LESS_MEMORY,
    NOTHING,
    ONE,
    RUNGS,
    START_BYTES,
    START_S,
    failed,
    memory,
    memory_rung,
    trial,
)


def _with_whole(change: float, **options: float) -> Ladder:
    return replace(FASTER.ladder, whole=trial(change, **options))  # type: ignore[arg-type]


def test_each_rung_is_on_top_of_those_before() -> None:
    rows = ladder_rows(FASTER)
    before = rows.start.amount
    for rung, row in zip(RUNGS, rows.rungs, strict=True):
        assert rung.trial is not None
        assert rung.trial.decision is not None
        assert row.amount == pytest.approx(before * (1 + rung.trial.decision.estimate.change))
        before = row.amount
    assert [row.lever for row in rows.rungs] == ["workers=2", "compile=blocks", "fused"]
    assert [row.numbers for row in rows.rungs] == [Numerics.BITWISE, *(Numerics.REASSOCIATION,) * 2]


def test_the_whole_is_the_fresh_measurement_and_not_the_product() -> None:
    rows = ladder_rows(replace(FASTER, ladder=_with_whole(-0.4)))
    assert FASTER.ladder.whole is not None
    assert rows.whole is not None
    assert rows.whole.change is not None
    assert rows.whole.change.change == pytest.approx(-0.4, abs=0.01)
    assert rows.whole.amount == pytest.approx(0.6 * START_S, rel=0.02)
    assert rows.rungs[-1].amount == pytest.approx(0.4 * START_S, rel=0.03)


def test_the_start_is_of_the_same_pairs_as_the_whole() -> None:
    rows = ladder_rows(FASTER)
    assert FASTER.ladder.whole is not None
    assert rows.start.amount == median(pair.before_s for pair in FASTER.ladder.whole.pairs)


@pytest.mark.parametrize(("change", "disagrees"), [(-0.602, False), (-0.5, True), (-0.75, True)])
def test_rungs_and_whole_that_do_not_agree_are_told(change: float, disagrees: bool) -> None:
    assert ladder_rows(replace(FASTER, ladder=_with_whole(change))).disagrees is disagrees


def test_rungs_that_are_within_the_noise_of_the_whole_agree() -> None:
    assert not ladder_rows(replace(FASTER, ladder=_with_whole(-0.55, noise=0.4))).disagrees


def test_a_start_that_drifted_is_told() -> None:
    assert ladder_rows(replace(FASTER, start_step_s=START_S / 1.2)).drift == pytest.approx(0.2, abs=0.02)
    assert ladder_rows(FASTER).drift == 0


def test_a_rung_without_an_interval_promises_nothing() -> None:
    rungs = (replace(RUNGS[0], trial=None), *RUNGS[1:])
    rows = ladder_rows(replace(FASTER, ladder=replace(FASTER.ladder, rungs=rungs)))
    assert rows.promised is None
    assert rows.rungs[0].amount == rows.start.amount


def test_open_intervals_stay_open() -> None:
    few = tuple(replace(rung, trial=trial(-0.3, pairs=2)) for rung in RUNGS)
    rows = ladder_rows(replace(FASTER, ladder=replace(FASTER.ladder, rungs=few)))
    assert rows.promised is not None
    assert (rows.promised.low, rows.promised.high) == (-1.0, inf)
    assert not rows.disagrees


@pytest.mark.parametrize(
    ("whole", "proven"),
    [
        (trial(-0.6), True),
        (trial(0.0), False),
        (trial(0.2), False),
        (trial(-0.6, pairs=3), False),
        (failed("it hangs"), False),
        (None, False),
    ],
)
def test_only_fresh_pairs_prove_the_whole(whole: TrialResult | None, proven: bool) -> None:
    rows = ladder_rows(replace(FASTER, ladder=replace(FASTER.ladder, whole=whole)))
    assert rows.is_proven is proven


def test_a_search_without_a_rung_has_the_start_alone() -> None:
    rows = ladder_rows(NOTHING)
    assert (rows.rungs, rows.whole, rows.is_proven) == ((), None, False)
    assert rows.all == (rows.start,)
    assert rows.start.amount == START_S


def test_one_rung() -> None:
    rows = ladder_rows(ONE)
    assert len(rows.all) == 3


def test_by_memory() -> None:
    rows = ladder_rows(LESS_MEMORY)
    assert [row.peak_bytes for row in rows.all] == [START_BYTES, 760_000_000, 690_000_000, 692_000_000]
    assert [row.amount for row in rows.all] == [row.peak_bytes for row in rows.all]
    assert [row.step_s for row in rows.all] == [START_S, 0.0991, 0.0994, 0.0993]
    assert rows.is_proven
    assert not rows.disagrees


def test_memory_that_overlaps_between_runs_is_not_proven() -> None:
    result = replace(LESS_MEMORY, ladder=replace(LESS_MEMORY.ladder, whole_memory=memory(START_BYTES, START_BYTES)))
    assert not ladder_rows(result).is_proven


def test_memory_that_failed_has_no_whole() -> None:
    broken = replace(memory(START_BYTES, 1), error="it ended with 1")
    assert ladder_rows(replace(LESS_MEMORY, ladder=replace(LESS_MEMORY.ladder, whole_memory=broken))).whole is None


def test_memory_rungs_that_do_not_add_up() -> None:
    rungs = (memory_rung("checkpoint=blocks", START_BYTES, 400_000_000),)
    assert ladder_rows(replace(LESS_MEMORY, ladder=replace(LESS_MEMORY.ladder, rungs=rungs))).disagrees


def test_whole_commands_are_not_steps() -> None:
    whole = replace(trial(-0.5, before_s=12.0), timed=Timed.WHOLE_PROCESS)
    rows = ladder_rows(replace(FASTER, ladder=replace(FASTER.ladder, whole=whole)))
    assert rows.timed is LadderTime.COMMAND
    assert rows.drift == 0
    assert FASTER.objective is Objective.TIME


def test_a_failed_trial_measures_nothing() -> None:
    stopped = replace(trial(-0.5), stopped=Stopped.FAILED, error="it hangs")
    rungs = (replace(RUNGS[0], trial=stopped),)
    assert ladder_rows(replace(FASTER, ladder=replace(FASTER.ladder, rungs=rungs))).rungs[0].change is None
