"""`redline.plan_training`, `plan_serving` and `validate_plans`: the same answers as on the command line."""

import inspect
import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import redline
from redline.cli import main
from redline.cli.options import options_of
from redline.cli.plan import LayoutSearch
from redline.errors import UsageError
from redline.verbs.plan import LAYOUT
from redline.verbs.plan_results import PlannedServing, PlannedTraining, ShownPlan
from tests.support.docs import rows_of, section

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "python.md"
JOB: dict[str, Any] = {"machine": "H100-SXM5-80GB", "gpus": 64, "sequence": 8192, "batch": 512}
NARROW: dict[str, Any] = {"tp": [1, 2], "pp": 1, "cp": 1, "recompute": "none", "zero": [1, 2]}


def test_a_plan_is_that_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    planned = redline.plan_training("llama-3.1-8b", **JOB, layout=NARROW, tokens=1e12, price=2, failures=0.004)
    words = "--gpus 64 --sequence 8192 --batch 512 --tp 1,2 --pp 1 --cp 1 --recompute none --zero 1,2 --tokens 1T"
    more = "--machine H100-SXM5-80GB --price 2 --failures 0.004 --json"
    assert main(["plan", "train", "--model", "llama-3.1-8b", *words.split(), *more.split()]) == 0
    planned.save(tmp_path / "plan.json")
    assert json.loads((tmp_path / "plan.json").read_text()) == json.loads(capsys.readouterr().out)


def test_several_sizes_are_compared() -> None:
    planned = redline.plan_training("llama-3.1-8b", **{**JOB, "gpus": [32, 64]}, layout=NARROW, by="cost")
    assert [one.devices for one in planned.sizes] == [32, 64]
    assert planned.plan in planned.sizes
    assert planned.job is None


def test_serving_is_that_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given: dict[str, Any] = {"prompt": 1024, "output_tokens": 256, "precision": ["fp8"], "max_tpot_s": 0.04}
    redline.plan_serving("llama-3.1-70b", machine="H100-SXM5-80GB", **given).save(tmp_path / "plan.json")
    words = "--prompt 1024 --output-tokens 256 --precision fp8 --max-tpot 40ms --machine H100-SXM5-80GB --json"
    assert main(["plan", "serve", "--model", "llama-3.1-70b", *words.split()]) == 0
    assert json.loads((tmp_path / "plan.json").read_text()) == json.loads(capsys.readouterr().out)


def test_everything_saves_and_shows_itself(tmp_path: Path) -> None:
    planned = redline.plan_training("llama-3.1-8b", **JOB, layout=NARROW)
    served = redline.plan_serving("llama-3.1-8b", machine="H100-SXM5-80GB", prompt=1024, output_tokens=256, tp=[1])
    everything: tuple[Any, ...] = (planned, served, redline.validate_plans())
    for number, value in enumerate(everything):
        assert re.fullmatch(r"<plans? .*>", repr(value))
        assert value._repr_html_().startswith("<div")
        value.save(tmp_path / f"{number}.html")
        value.save(tmp_path / f"{number}.json")
        assert (tmp_path / f"{number}.html").read_text().startswith("<!doctype html>")
        assert "redline_version" in json.loads((tmp_path / f"{number}.json").read_text())
    planned.save_trace(tmp_path / "plan.json.gz")
    assert redline.diagnose([tmp_path / "plan.json.gz"]).outline.steps.median_ns == pytest.approx(
        planned.plan.best.step_s * 1e9, rel=0.02
    )


def test_a_module_has_samples() -> None:
    pytest.importorskip("torch")
    module = f"{Path(__file__).parents[3]}/examples/plan/network.py:build"
    planned = redline.plan_training(module, machine="H100-SXM5-80GB", gpus=8, batch=256)
    assert planned.plan.unit == "samples"
    with pytest.raises(
        UsageError, match="sequence is for models of tokens; a module has samples: give the batch alone"
    ):
        redline.plan_training(module, machine="H100-SXM5-80GB", gpus=8, batch=256, sequence=128)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"layout": {"tensor": 2}}, "a layout has no 'tensor'; it has: dp, tp, pp"),
        ({"layout": {"recompute": "some"}}, "recompute some: there are: none, selective, full"),
        ({"layout": {"tp": "two"}}, "tp two: give a number"),
        ({"gpus": []}, "gpus is a number of 1 or more, or a list of such numbers"),
        ({"by": "luck"}, "by luck: there is no such choice; there are: speed, memory, cost"),
        ({"sequence": None}, "sequence is missing: how many tokens has a sequence"),
        (
            {"numbers": {"depth": 4}},
            "a model has no number 'depth'; it has layers, hidden, heads, vocab, ffn and so on",
        ),
        ({"pue": 1.2}, "pue is for the whole job; give the number of tokens to train on as well"),
        ({"layout": {"tp": 7}}, "tp 7: that does not divide 64 GPUs; give one of 1, 2, 4, 8, 16, 32, 64"),
        ({"batch": 7, "layout": {"dp": 64}}, "dp 64: a batch of 7 sequences cannot be dealt to 64 copies evenly"),
        ({"batch": 3, "gpus": 37}, "no layout of 37 devices can run this model with 3 sequences per step\ncopies have"),
    ],
)
def test_nonsense_is_answered_with_what_to_do(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        redline.plan_training("llama-3.1-8b", **{**JOB, **changed})


def test_a_plan_is_saved_as_a_page_or_as_figures(tmp_path: Path) -> None:
    planned = redline.plan_training("llama-3.1-8b", **JOB, layout=NARROW)
    with pytest.raises(UsageError, match=r"a plan is saved as \.html, \.json; give the file such a name"):
        planned.save(tmp_path / "plan.pdf")


def test_fields_of_a_layout_are_those_of_the_command_line() -> None:
    assert set(LAYOUT) == {option.key for option in options_of(LayoutSearch)}


@pytest.mark.parametrize(("verb", "kind"), [("plan_training", PlannedTraining), ("plan_serving", PlannedServing)])
def test_the_page_has_every_argument_and_every_attribute(verb: str, kind: type[Any]) -> None:
    arguments = list(inspect.signature(getattr(redline, verb)).parameters)
    public = [name for name in vars(kind) if not name.startswith("_") and callable(getattr(kind, name, None))]
    methods = {"save", *(name for name in public if not hasattr(ShownPlan, name))}
    named = [*arguments, *(one.name for one in fields(kind))]
    documented = [re.sub(r"\(.*\)", "", row[0].strip("`")) for row in rows_of(section(PAGE, f"redline.{verb}"))]
    assert documented[: len(named)] == named
    assert sorted(documented[len(named) :]) == sorted(methods)
