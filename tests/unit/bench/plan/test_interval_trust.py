"""What a plan says of its own errors is what was found on runs left out of the fit, in the plan's own situation."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bench.plan.interval_trust import trust
from bench.plan.left_out_accuracy import of_all
from bench.plan.memory import as_measured, measured_peaks, predicted_use
from bench.plan.predicted_steps import predicted
from bench.plan.training import expressed_untouched
from bench.plan.user_intervals import planned_runs
from redline.hardware.catalogue import find
from redline.hardware.machine import LAW_COMPUTE, Figure, FigureSource, Machine
from redline.model.huggingface import known_model
from redline.model.model import Model
from redline.plan.accuracy import accuracy_of
from redline.plan.train.memory.footprint import peak_interval
from redline.plan.train.search.plan_trust import PlannedJob, Situation, evidence, kind_of, trust_of
from redline.plan.train.stacks import stack_names

H100 = find("H100-SXM5-80GB")
LLAMA_70B = known_model("llama-3.1-70b")


def planned(stack: str, machine: Machine = H100, model: Model = LLAMA_70B, devices: int = 512) -> PlannedJob:
    return PlannedJob(stack=stack, machine=machine, dtype="bf16", devices=devices, model=model)


def width(run: PlannedJob) -> float:
    found = trust_of(run)
    return found.high / found.low


def written() -> dict[str, Any]:
    found: dict[str, Any] = accuracy_of("training")
    return found


def test_the_file_is_up_to_date() -> None:
    """Where it is not: python -m bench.plan."""
    assert {"how": written()["how"], **trust()} == written()


@pytest.mark.parametrize("stack", stack_names())
def test_every_stack_has_evidence(stack: str) -> None:
    step, memory = evidence(planned(stack))
    assert (step.what, memory.what) == ("step", "memory")
    assert step.rows > 0
    assert 0 < step.median <= step.p90


def test_a_measured_job_has_nothing_new_but_its_layout() -> None:
    assert trust_of(planned("megatron-core")).situations == (Situation.LAYOUT,)


@pytest.mark.parametrize(
    ("new", "run"),
    [
        ({Situation.MODEL}, planned("megatron-core", model=known_model("qwen2.5-72b"))),
        ({Situation.GPUS}, planned("megatron-core", devices=777)),
        ({Situation.GPU}, planned("composer", machine=find("B200-SXM"), model=known_model("llama-3.1-8b"), devices=8)),
        ({Situation.STACK}, planned("default")),
        ({Situation.STACK, Situation.GPU_ANYWHERE}, planned("default", machine=find("MI300X"))),
    ],
)
def test_a_plan_quotes_the_errors_of_its_own_situation(new: set[Situation], run: PlannedJob) -> None:
    found = trust_of(run)
    assert new <= set(found.situations)
    assert evidence(run)[0].situation == found.situations[0]


def test_what_is_new_about_a_plan_widens_its_interval() -> None:
    """Software that nobody knows more than a model, and a GPU that nobody measured more still."""
    known, new_model = planned("megatron-core"), planned("megatron-core", model=known_model("qwen2.5-72b"))
    assert width(known) <= width(new_model) < width(planned("default"))
    assert width(planned("default")) < width(planned("default", machine=find("MI300X")))


@pytest.mark.parametrize("model", ["llama-3.1-70b", "mixtral-8x22b"])
@pytest.mark.parametrize("stack", stack_names())
def test_no_interval_is_narrower_than_that_of_other_people(stack: str, model: str) -> None:
    """However well its own runs are known: they have one source."""
    run = planned(stack, model=known_model(model))
    users = written()["users"][kind_of(run)]
    found = trust_of(run)
    assert found.low <= users["low"]
    assert found.high >= users["high"]
    assert found.users == users["runs"] >= 25


def test_eight_of_ten_runs_of_other_people_are_in_their_interval() -> None:
    """Which was widened until it is so: not a score, but a check that plans use what was found."""
    runs = expressed_untouched()
    measured = runs.measured_s / predicted(runs).step_s
    found = [trust_of(run) for run in planned_runs(runs)]
    inside = [each.low <= ratio <= each.high for each, ratio in zip(found, measured.tolist(), strict=True)]
    assert 0.78 <= np.mean(inside) <= 0.86


def test_the_errors_of_a_profile_widen_the_interval() -> None:
    law = Figure(value=6e14, source="measured", date="", origin=FigureSource.CALIBRATED, spread=3.17)
    noisy = replace(
        H100, name="H100 of a busy host", base=H100.name, figures={**H100.figures, f"{LAW_COMPUTE}.bf16": law}
    )
    run = planned("megatron-core", machine=noisy)
    assert trust_of(run).profile_error == 3.17
    assert width(run) > 4


def test_a_cpu_quotes_no_runs_on_gpus() -> None:
    cpu = Machine(name="a CPU", architecture="cpu", figures=H100.figures)
    assert evidence(planned("megatron-core", machine=cpu)) == ()
    assert (trust_of(planned("megatron-core", machine=cpu)).runs, width(planned("default", machine=cpu)) >= 4) == (
        0,
        True,
    )


def test_software_that_is_not_known_quotes_runs_that_were_predicted_without_theirs() -> None:
    step, memory = evidence(planned("default"))
    assert (step.stack, memory.stack, step.situation) == ("all", "all", Situation.STACK)
    assert step.median == round(of_all(Situation.STACK).median, 3)
    assert step.median > 2 * evidence(planned("megatron-core"))[0].median


def test_most_peaks_are_in_the_interval_of_a_stack_that_nobody_measured() -> None:
    """Each stack counts as much as any other, as in the fit."""
    every = measured_peaks()
    rows = every.where(every.held_out)
    low, high = peak_interval(as_measured(predicted_use(rows, fitted=False), rows.kinds), "never heard of")
    inside = (low <= rows.measured_bytes) & (rows.measured_bytes <= high)
    assert 0.65 <= np.mean([inside[rows.stacks == name].mean() for name in np.unique(rows.stacks)]) <= 0.9
