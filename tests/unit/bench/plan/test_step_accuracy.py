"""What is claimed about predicted step times holds on the published runs that nothing was fitted to."""

import numpy as np
import pytest

from bench.plan.predicted_steps import predicted, rates
from bench.plan.step_accuracy import choice_loss, step_accuracy
from bench.plan.training import Runs, expressed_runs, unexpressed_runs
from bench.plan.validation import StepAccuracy
from redline.model.parameters import active_parameters


@pytest.fixture(scope="module")
def accuracy() -> StepAccuracy:
    return step_accuracy()


@pytest.fixture(scope="module")
def runs() -> Runs:
    return expressed_runs()


def run(runs: Runs, name: str) -> Runs:
    return runs.where(runs.ids == name)


def test_dense_steps_are_predicted_as_well_as_promised(accuracy: StepAccuracy) -> None:
    assert accuracy.dense.runs > 1350
    assert accuracy.dense.median <= 0.05
    assert accuracy.dense.ninetieth <= 0.20
    assert abs(accuracy.dense.bias) <= 0.02


def test_stacks_built_on_megatron_are_predicted_better(accuracy: StepAccuracy) -> None:
    assert accuracy.megatron.runs > 100
    assert accuracy.megatron.median <= 0.05
    assert accuracy.megatron.ninetieth <= 0.15


def test_eight_of_ten_measured_times_lie_in_their_interval(accuracy: StepAccuracy) -> None:
    assert 0.75 <= accuracy.dense.covered <= 0.85
    assert 0.75 <= accuracy.everything.covered <= 0.85


def test_other_kinds_are_stated_with_their_number(accuracy: StepAccuracy) -> None:
    stated = {each.name: each.runs for each in accuracy.kinds}
    assert stated.keys() == {"experts", "fewer bits", "long"}  # adapters cannot be planned
    assert all(count >= 15 for count in stated.values())
    assert sum(each.runs for each in accuracy.stacks) == accuracy.everything.runs


def test_nearly_all_scored_runs_have_a_sibling_among_the_fitted_ones(accuracy: StepAccuracy) -> None:
    """As plans and pages say of `held out`."""
    assert int(100 * accuracy.siblings) == 98


def test_nearly_all_runs_can_be_expressed(accuracy: StepAccuracy) -> None:
    assert accuracy.expressible >= 0.95
    assert sum(count for _, count in accuracy.reasons) == len(unexpressed_runs())


def test_the_choice_among_measured_layouts_costs_little(accuracy: StepAccuracy) -> None:
    """In the worst tenth it costs a lot: 64 nodes, where the cluster of the sweep stalls, and memory that is tight."""
    assert len(accuracy.choice.choices) == 26
    assert accuracy.choice.median <= 0.02
    assert accuracy.choice.ninetieth <= 0.6


def test_a_layout_that_may_run_out_of_memory_is_not_chosen(runs: Runs) -> None:
    """80B on 64 devices: the fastest ran once and failed once; another is twice as slow. On 32 the fastest fits."""
    large = runs.where((runs.stacks == "nanotron") & (runs.names == "llama-like-80B"))
    lost = {choice.devices: choice.lost for choice in choice_loss(large).choices}
    assert lost[64] > 0.5
    assert lost[32] == 0


def test_steps_on_64_nodes_are_predicted_with_the_stalls_of_their_cluster(runs: Runs) -> None:
    large = runs.where((runs.stacks == "nanotron") & (runs.devices == 512) & runs.held_out)
    errors = predicted(large).step_s / large.measured_s - 1
    assert len(large) > 100
    assert np.median(np.abs(errors)) <= 0.25


def test_no_run_is_predicted_to_beat_the_peak(runs: Runs) -> None:
    """Two FLOPs per parameter and token, forward; twice that backward, half of it where weights are frozen."""
    tokens = np.asarray(runs.batch.sequence * runs.batch.sequences)
    passes = np.where(runs.adapters, 4, 6)
    flops = passes * np.asarray(active_parameters(runs.model)) * 0.95 * tokens  # embeddings are looked up
    least_s = flops / runs.devices / np.asarray(runs.bare.peak_flops_per_s)
    assert np.all(predicted(runs).step_s > least_s)


def test_every_row_has_the_rates_of_its_own_stack_and_machine(runs: Runs) -> None:
    few = runs.where(np.isin(runs.ids, ["NT0002", "VT0002", "LF0002"]))
    found = rates(few)
    assert len(few) == 3
    assert set(np.asarray(found.gradient_bytes)[few.stacks == "nanotron"]) == {4}
    assert set(np.asarray(found.gradient_bytes)[few.stacks != "nanotron"]) == {2}


def test_odd_ids_are_held_out(runs: Runs) -> None:
    assert bool(run(runs, "NT0003").held_out[0])
    assert not bool(run(runs, "NT0002").held_out[0])


def test_latent_attention_and_adapters_are_told(runs: Runs) -> None:
    latent = runs.where(np.char.startswith(runs.names.astype(np.str_), "DeepSeekV3"))
    assert np.all(np.asarray(latent.model.kv_rank) == 512)
    assert np.asarray(active_parameters(latent.model)) == pytest.approx(37e9, rel=0.03)
    assert runs.adapters.sum() >= 30


def test_what_cannot_be_expressed_says_why() -> None:
    reasons = {each.reason for each in unexpressed_runs()}
    assert "the layout is not given" in reasons
    assert "" not in reasons
    assert len({each.id for each in unexpressed_runs()}) == len(unexpressed_runs())
