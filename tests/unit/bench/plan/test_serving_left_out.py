"""Runs of serving are predicted without their model or GPU, and what is said of that can be done again."""

import json

import numpy as np
import pytest

from bench.plan.intervals import SHARE
from bench.plan.score_serving_left_out import fold_constants, fold_logs
from bench.plan.serving import load_serving
from bench.plan.serving_accuracy import left_out_groups
from bench.plan.serving_errors import SCORED
from bench.plan.serving_folds import serving_folds, serving_groups
from bench.plan.serving_intervals import covered_left_out, inside_widened, serving_trust
from bench.plan.serving_left_out import serving_residuals
from redline.plan.accuracy import accuracy_of
from redline.plan.serve.serving_plan import LEAST_GROUPS, FigureTrust, ServingSituation, situation_of, trust_of

WIDTHS = np.arange(0.3, 5.0, 0.02).tolist()
METRICS = sorted({metric for metrics in SCORED.values() for metric in metrics})


def test_no_group_is_on_both_sides_of_a_fold() -> None:
    rows, _ = load_serving()
    for fold in serving_folds(rows):
        names = serving_groups(rows, fold.situation)
        assert {rows.engine[at] for at in np.flatnonzero(fold.fitted | fold.scored)} == {fold.engine}
        assert set(names[fold.scored]) == {fold.group}
        assert fold.group not in names[fold.fitted]
        assert not (fold.fitted & (rows.held_out > 0)).any()


def test_a_model_is_left_out_of_a_gpu_that_stays_known() -> None:
    """And a GPU of a family that does; else more is new than that."""
    rows, _ = load_serving()
    for situation, wider in zip(ServingSituation, list(ServingSituation)[1:], strict=False):
        names = serving_groups(rows, wider)
        for fold in serving_folds(rows):
            if fold.situation is situation:
                assert set(names[fold.scored]) <= set(names[fold.fitted]), (fold.engine, fold.group)


@pytest.mark.parametrize("situation", ServingSituation)
def test_every_run_that_can_be_left_out_is(situation: ServingSituation) -> None:
    """Where it is not: python -m bench.plan.score_serving_left_out."""
    rows, _ = load_serving()
    folds = [fold for fold in serving_folds(rows) if fold.situation is situation]
    assert np.max(np.sum([fold.scored for fold in folds], axis=0)) == 1
    for metric in METRICS:
        asked = np.isfinite(rows.measured[metric]) & np.array([metric in SCORED[engine] for engine in rows.engine])
        expected = {rows.ids[at] for fold in folds for at in np.flatnonzero(fold.scored & asked)}
        assert set(serving_residuals(situation, metric).ids.tolist()) == expected, metric


def test_a_fit_without_a_group_is_what_the_package_says() -> None:
    """Where it is not: python -m bench.plan.score_serving_left_out, then draw_accuracy."""
    rows, _ = load_serving()
    fold = next(fold for fold in serving_folds(rows) if fold.engine == "vLLM")
    found = fold_logs(rows, fold, fold_constants(rows, fold))
    for metric in SCORED["vLLM"]:
        told = serving_residuals(ServingSituation.MODEL, metric)
        own = told.where((told.engines == "vLLM") & (told.groups == fold.group))
        assert found[metric][np.isfinite(found[metric])] == pytest.approx(own.logs, abs=0.02)


def test_the_file_of_intervals_is_up_to_date() -> None:
    """Where it is not: python -m bench.plan."""
    written = accuracy_of("serving")
    assert {"how": written["how"], **json.loads(json.dumps(serving_trust()))} == written


@pytest.mark.parametrize("situation", ServingSituation)
def test_eight_of_ten_are_in_their_interval_whatever_was_left_out(situation: ServingSituation) -> None:
    """Where there are groups enough to tell."""
    for metric in METRICS:
        if len(np.unique(serving_residuals(situation, metric).groups)) >= LEAST_GROUPS:
            assert 0.75 <= covered_left_out(situation, metric).mean() <= 0.85, metric


@pytest.mark.parametrize("situation", [ServingSituation.MODEL, ServingSituation.FAMILY])
def test_intervals_hold_as_many_where_the_group_has_no_part_in_their_width(situation: ServingSituation) -> None:
    """Not of a type of GPU: nearly all of SGLang's are one, as the page on accuracy says."""
    inside: list[bool] = []
    for metric in METRICS:
        told = serving_residuals(situation, metric)
        for engine in np.unique(told.engines):
            own = told.engines == engine
            if len(np.unique(told.groups[own])) >= LEAST_GROUPS:
                for group in np.unique(told.groups[own]):
                    others = own & (told.groups != group)
                    width = next(at for at in WIDTHS if inside_widened(situation, metric, at)[others].mean() >= SHARE)
                    inside += inside_widened(situation, metric, width)[own & (told.groups == group)].tolist()
    assert 0.75 <= np.mean(inside) <= 0.85


def test_an_engine_with_few_groups_borrows_from_the_others() -> None:
    """vLLM was measured on one GPU: what a new one does to it, others say."""
    new_family = trust_of("vLLM", ServingSituation.FAMILY, "tokens_per_s")
    assert new_family is not None
    assert new_family.engine == "all"
    own = trust_of("SGLang", ServingSituation.MODEL, "tpot_s")
    assert own is not None
    assert own.engine == "SGLang"
    assert trust_of("TensorRT-LLM", ServingSituation.MODEL, "ttft_s") is None  # never measured with it


def test_what_is_new_widens_the_interval() -> None:
    def width(found: FigureTrust | None) -> float:
        assert found is not None
        return found.high / found.low

    for engine, metric in (("SGLang", "tpot_s"), ("TensorRT-LLM", "tokens_per_s")):
        model, family = (trust_of(engine, each, metric) for each in (ServingSituation.MODEL, ServingSituation.FAMILY))
        assert width(model) < width(family), engine


def test_the_situation_of_a_gpu() -> None:
    assert situation_of("SGLang", "B200-SXM") is ServingSituation.MODEL
    assert situation_of("SGLang", "H20") is ServingSituation.GPU
    assert situation_of("vLLM", "H100-SXM5-80GB") is ServingSituation.FAMILY
    assert situation_of("vLLM", "MI300X") is ServingSituation.MODEL


def test_every_group_has_a_line() -> None:
    rows, _ = load_serving()
    folds = list(serving_folds(rows))
    assert len(left_out_groups()) == len(folds)
    assert sum(group.rows for group in left_out_groups()) <= sum(int(fold.scored.sum()) for fold in folds)
