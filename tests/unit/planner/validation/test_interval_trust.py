"""What a plan says of its own errors is what the tables of accuracy say."""

import json
from importlib.resources import files

import numpy as np
import pytest

from redline.hardware.catalogue import find
from redline.model.known import known_model
from redline.planner.train.memory.oom_probability import peak_interval
from redline.planner.train.search.plan_trust import evidence, spread_of
from redline.planner.train.stacks import spread, stack_names
from redline.planner.train.transformer import Transformer
from redline.planner.validation.interval_trust import _usable_runs, held_out, measured_machines, usual_spread
from redline.planner.validation.memory import as_measured, measured_peaks, predicted_use
from redline.planner.validation.step_accuracy import predicted, step_accuracy

H100 = find("H100-SXM5-80GB")


def test_the_file_is_up_to_date() -> None:
    """Where it is not: python scripts/score_plan.py."""
    written = json.loads((files("redline.planner.train.search") / "trust.json").read_text(encoding="utf-8"))
    assert written["held_out"] == held_out()
    assert written["usual_spread"] == usual_spread()
    assert written["machines"] == measured_machines()


@pytest.mark.parametrize("stack", stack_names())
def test_every_stack_has_evidence(stack: str) -> None:
    step, memory = evidence(stack, H100)
    assert (step.what, memory.what) == ("step", "memory")
    assert step.rows > 0
    assert 0 < step.median <= step.p90


def test_a_stack_without_runs_quotes_all() -> None:
    step, memory = evidence("default", H100)
    assert step.stack == memory.stack == "all"
    assert step.rows > 1000


def test_a_stack_without_runs_does_not_quote_what_known_software_reaches() -> None:
    """Its constants are not those that such runs were predicted with."""
    step, memory = evidence("default", H100)
    assert step.median > 2 * step_accuracy().everything.median
    assert memory.median > 2 * max(evidence(stack, H100)[1].median for stack in ("nanotron", "bigscience"))


def test_most_peaks_are_in_the_interval_of_a_stack_that_nobody_measured() -> None:
    """Each stack counts as much as any other, as in the fit."""
    every = measured_peaks()
    rows = every.where(every.held_out)
    low, high = peak_interval(as_measured(predicted_use(rows, fitted=False), rows.kinds), "never heard of")
    inside = (low <= rows.measured_bytes) & (rows.measured_bytes <= high)
    assert 0.65 <= np.mean([inside[rows.stacks == name].mean() for name in np.unique(rows.stacks)]) <= 0.9


def test_eight_of_ten_runs_of_any_software_are_in_the_interval_of_usual_software() -> None:
    low, high = spread_of("default", H100)
    runs = _usable_runs(held_out=True)
    ratios = runs.measured_s / predicted(runs).step_s
    inside = ((low <= ratios) & (ratios <= high)).mean()
    assert 0.75 <= inside <= 0.85


def test_the_interval_is_that_of_the_stack_and_wider_with_experts() -> None:
    dense, sparse = (Transformer(known_model(name)) for name in ("llama-3.1-8b", "mixtral-8x7b"))
    usual, wide = spread("megatron-core"), spread("megatron-core", unusual=True)
    assert (dense.spread("megatron-core", H100), sparse.spread("megatron-core", H100)) == (usual, wide)
    assert usual != wide


@pytest.mark.parametrize("name", ["MI300X", "TPU-v6e", "H20"])
def test_on_a_machine_without_runs_no_stack_claims_its_own_error(name: str) -> None:
    machine = find(name)
    low, high = spread_of("megatron-core", H100)
    wide_low, wide_high = spread_of("megatron-core", machine)
    assert (wide_low < low, wide_high > high) == (True, True)
    assert evidence("megatron-core", machine)[0].stack == "all"
