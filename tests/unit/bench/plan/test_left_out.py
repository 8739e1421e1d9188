"""Runs are predicted without anything of their kind, and what is said of that can be done again."""

import numpy as np
import pytest

from bench.plan.fit_step import fitted, fitting_half
from bench.plan.folds import folds, groups
from bench.plan.intervals import covered
from bench.plan.left_out import of_neighbour, residuals
from bench.plan.left_out_accuracy import left_out_accuracy, of_all
from bench.plan.neighbour import neighbour_logs
from bench.plan.peers import llm_analysis_logs
from bench.plan.predicted_steps import usual
from bench.plan.score_left_out import fits, left_out_logs
from bench.plan.training import expressed_runs
from redline.plan.train.search.plan_trust import Situation

LEFT_OUT = [situation for situation in Situation if situation is not Situation.LAYOUT]


def test_no_group_is_on_both_sides_of_a_fold() -> None:
    runs = expressed_runs()
    for fold in folds(runs):
        names, same = groups(runs, fold.axis), runs.stacks == runs.stacks[fold.scored][0]
        kept = (
            same & ~fold.left_out if fold.axis in (Situation.MODEL, Situation.GPUS, Situation.GPU) else ~fold.left_out
        )
        assert not set(names[fold.scored]) & set(names[kept]), fold.axis


@pytest.mark.parametrize("situation", LEFT_OUT)
def test_no_run_is_predicted_twice(situation: Situation) -> None:
    runs = expressed_runs()
    times = np.sum([fold.scored for fold in folds(runs) if fold.axis is situation], axis=0)
    assert np.max(times) == 1
    if situation in (Situation.STACK, Situation.SOURCE):
        assert (times == usual(runs)).all()


@pytest.mark.parametrize(("stack", "situation"), [("fsdp", Situation.GPU), ("deepspeed", Situation.MODEL)])
def test_a_fit_without_a_group_is_what_the_package_says(stack: str, situation: Situation) -> None:
    """Where it is not: python -m bench.plan.score_left_out, then score_plan, draw_accuracy and renew_worked_plans."""
    runs, known = expressed_runs(), fitting_half()
    told = dict(zip(residuals(situation).runs.ids.tolist(), residuals(situation).logs.tolist(), strict=True))
    own = (fold for fold in folds(runs) if fold.axis is situation and fold.predicted_as == stack and fold.scored.any())
    fold = next(own)
    constants = {fit.stack: fitted(fit.stack, known.where(np.isin(known.ids, fit.ids))) for fit in fits(runs, fold)}
    assert left_out_logs(runs, fold, constants) == pytest.approx(
        [told[name] for name in runs.ids[fold.scored]], abs=0.02
    )


def test_the_nearest_run_is_what_the_package_says() -> None:
    runs, told = expressed_runs(), of_neighbour(Situation.GPU)
    logs = neighbour_logs(runs, Situation.GPU)
    assert logs[np.isfinite(logs)] == pytest.approx(told.logs, abs=1e-3)


def test_eight_of_ten_are_in_their_interval_whatever_was_left_out() -> None:
    for situation in Situation:
        assert 0.75 <= covered(situation).mean() <= 0.85, situation


def test_what_is_left_out_makes_errors_larger() -> None:
    median = {situation: of_all(situation).median for situation in Situation}
    assert median[Situation.LAYOUT] < median[Situation.MODEL] < median[Situation.STACK]
    assert median[Situation.LAYOUT] < median[Situation.GPU]


def test_plans_are_better_than_the_nearest_run() -> None:
    """Where they were not, a table of runs would do."""
    for situation in (Situation.MODEL, Situation.GPUS, Situation.STACK):
        found = of_all(situation)
        assert found.median < found.nearest_median, situation
        assert found.ninetieth < found.nearest_ninetieth, situation


def test_llm_analysis_is_rebuilt_as_it_is() -> None:
    """GPT-3 175B on A100, by hand: three forward passes, and what is computed again, at half of 312 TFLOP/s."""
    runs = expressed_runs()
    dense = runs.where((runs.names == "gpt3-175b") & (runs.machines == "A100-SXM4-80GB"))
    expressed = np.isfinite(llm_analysis_logs(dense))
    one = dense.where(expressed & (np.cumsum(expressed) == 1))
    tokens = np.asarray(one.batch.sequence * one.batch.sequences).item()
    attention = 4 * tokens * np.asarray(one.batch.sequence).item() * 12288
    forward = 96 * (24 * tokens * 12288**2 + attention) + 2 * tokens * 12288 * np.asarray(one.model.vocab).item()
    again = {0: 0.0, 1: attention * 96, 2: forward}[int(np.asarray(one.layout.recompute).item())]
    told_s = (3 * forward + again) / (one.devices.item() * 312e12 * 0.5)
    assert llm_analysis_logs(one) == pytest.approx(np.log(one.measured_s / told_s))


def test_peers_are_held_against_plans_that_know_as_little() -> None:
    (peer,) = left_out_accuracy().peers
    assert peer.runs > 2000
    assert peer.own_median < peer.median
