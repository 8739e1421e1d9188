"""The cases of the check of numbers: enough of them, each a change that its script knows, with places that exist."""

import ast
import importlib
import subprocess
from collections import Counter
from fnmatch import fnmatchcase

import pytest

pytest.importorskip("torch")

from torch import nn

from bench.number_cases.case import REFERENCE, SINGLE, NumbersCase, NumbersModel
from bench.number_cases.registry import CASES, MODELS

BUGS = [case for case in CASES if case.kind == "bug"]
HARMLESS = [case for case in CASES if case.kind == "harmless"]


def changes_asked_for(model: NumbersModel) -> set[str]:
    """Names that the script, or what it shares with others, passes to `on`."""
    shared = model.script.with_name("common.py")
    calls = [node for path in (model.script, shared) for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    return {
        word.value
        for call in calls
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "on"
        for word in call.args
        if isinstance(word, ast.Constant) and isinstance(word.value, str)
    }


def names_in(model: NumbersModel) -> dict[str, set[str]]:
    """What tensors of each kind are called."""
    built: nn.Module = importlib.import_module(f"bench.number_cases.{model.name}").build()
    parameters = {name for name, _ in built.named_parameters(remove_duplicate=False)}
    modules = {name for name, _ in built.named_modules()}
    return {"loss": {""}, "activation": modules, "gradient": parameters, "movement": parameters}


def changes_of(case: NumbersCase) -> set[str]:
    return {word for variant in (case.variant, case.reference) for word in variant.split("+")} - {REFERENCE, SINGLE}


def test_there_are_enough_cases_in_each_half() -> None:
    assert len(BUGS) >= 75 * 2
    assert len(HARMLESS) >= 90 * 1.5
    for kind, least in ((BUGS, 60), (HARMLESS, 80)):
        by_half = Counter(MODELS[case.model].half for case in kind)
        assert min(by_half["fit"], by_half["set aside"]) >= least


def test_the_halves_have_as_many_models() -> None:
    assert Counter(model.half for model in MODELS.values()) == {"fit": 5, "set aside": 5}


def test_names_are_unique() -> None:
    assert [name for name, times in Counter(case.name for case in CASES).items() if times > 1] == []


def test_only_bugs_have_a_place_and_all_have() -> None:
    assert [case.name for case in CASES if bool(case.first) != (case.kind == "bug")] == []


@pytest.mark.parametrize("model", MODELS.values(), ids=lambda model: model.name)
def test_changes_of_cases_and_scripts_are_the_same(model: NumbersModel) -> None:
    named = {change for case in CASES if case.model == model.name for change in changes_of(case)}
    assert named - changes_asked_for(model) == set()
    assert changes_asked_for(model) - named - {"threads"} == set()


@pytest.mark.parametrize("model", MODELS.values(), ids=lambda model: model.name)
def test_places_where_bugs_show_exist(model: NumbersModel) -> None:
    names = names_in(model)
    missing = [
        (case.name, place)
        for case in BUGS
        if case.model == model.name
        for place in case.first
        if not any(fnmatchcase(name, place.name) for name in names[place.kind])
    ]
    assert missing == []


def test_a_command_of_several_ranks_starts_them_and_its_single_reference_does_not() -> None:
    model = MODELS["fsdp2"]
    assert "torch.distributed.run" in model.command("reduced_in_bf16", seed=3)
    assert model.command("reduced_in_bf16", seed=3)[-1] == "3"
    single = model.command(SINGLE)
    assert "torch.distributed.run" not in single
    assert single[single.index("--variant") + 1] == REFERENCE


def test_a_change_that_a_script_does_not_know_ends_with_its_name() -> None:
    done = subprocess.run(
        MODELS["generation"].command("inference_mode+no_such_change", steps=1),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1] == "no change of this script is named no_such_change"
