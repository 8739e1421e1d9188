"""The plan that memory is held against: read from its JSON or taken as it is; what is no such plan is named."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import redline
from redline.cli import main
from redline.errors import InputError
from redline.ledger.accounts import MemoryAccount
from redline.plan.train.training_choices import PipelineSchedule, Recompute
from redline.report.plan.train.training_report import record_of
from redline.verbs.plan_results import PlannedTraining
from redline.verbs.planned_memory import planned_memory
from tests.support import made_plans
from tests.support.made_snapshots import random_allocator


def _written(folder: Path, change: Callable[[dict[str, Any]], object] = lambda _: None) -> Path:
    record = record_of(made_plans.plan())
    change(record)
    path = folder / "plan.json"
    path.write_text(json.dumps(record))
    return path


def test_the_file_and_the_plan_say_the_same(tmp_path: Path) -> None:
    plan = made_plans.plan()
    read = planned_memory(_written(tmp_path))
    taken = planned_memory(PlannedTraining(plan=plan, job=None, sizes=()))
    assert (read.accounts, read.layout, read.outside_bytes) == (taken.accounts, taken.layout, taken.outside_bytes)
    assert (taken.file, read.file) == ("", str(tmp_path / "plan.json"))
    assert (read.model, read.machine, read.dtype, read.devices) == ("Llama-3-8B", "H100-SXM5-80GB", "bf16", 64)
    assert (read.layout.schedule, read.layout.recompute) == (PipelineSchedule.ONE_F_ONE_B, Recompute.SELECTIVE)
    assert read.in_use_bytes == round(float(plan.best.memory.allocated_bytes))
    assert read.accounts[MemoryAccount.CACHED] == round(float(plan.best.memory.allocator_bytes))


def _without(*path: str) -> Callable[[dict[str, Any]], object]:
    def change(record: dict[str, Any]) -> None:
        for name in path[:-1]:
            record = record[name]
        del record[path[-1]]

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda record: record.update(kind="serving-plan"), "holds a 'serving-plan', not a 'training-plan'"),
        (lambda record: record.update(schema_version=99), "upgrade it"),
        (_without("kind"), "was not written by Redline"),
        (_without("best", "memory"), "damaged, or not a plan of training.*missing.*`memory`"),
        (_without("best"), "damaged, or not a plan of training"),
        (_without("best", "layout", "schedule"), "a plan without a layout, or damaged: 'schedule'"),
        (lambda record: record["best"]["layout"].update(tq=2), "or damaged"),
        (lambda record: record["best"]["memory"].update(weights_bytes=-1), "damaged, or not a plan of training"),
        (_without("best", "memory", "temporaries_bytes"), "a plan of another version, without temporaries_bytes"),
    ],
)
def test_what_is_no_plan_of_training_is_said(
    change: Callable[[dict[str, Any]], object], said: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=said) as error:
        planned_memory(_written(tmp_path, change))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "nothing", "[]", "\x1f\x8b"])
def test_what_is_no_json_is_said(text: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"is damaged, or not a plan of training.*redline plan train"):
        planned_memory(path)
    with pytest.raises(InputError, match=r"cannot read .* as a plan"):
        planned_memory(tmp_path / "other.json")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot = random_allocator(1, 200).write(tmp_path / "a.pickle")
    assert main(["memory", str(snapshot), "--plan", str(_written(tmp_path)), "-q"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "Predicted: Llama-3-8B on 64 H100-SXM5-80GB in bf16, dp 8 x tp 4 x pp 2" in words
    assert "GPUs of the plan: 64. Devices whose memory was read: 1." in words
    assert main(["memory", str(snapshot), "--plan", str(snapshot)]) == 2
    assert "not a plan of training" in capsys.readouterr().err
    assert redline.memory(snapshot, plan=_written(tmp_path)).comparison is not None
