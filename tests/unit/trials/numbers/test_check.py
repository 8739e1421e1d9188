"""The verdict on a candidate, from runs that are made up: which class it is of, and what cannot be told."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from redline.errors import InputError
from redline.numerics import Numerics
from redline.trials.numbers.check import NumbersResult, check_kept, check_source
from redline.trials.numbers.differences import PERTURBATION, NumberFloors, floors_of
from redline.trials.numbers.run_numbers import RunNumbers, TensorKey
from tests.support.made_numbers import Values, all_off, key, model, off, run, tensor
from tests.support.recorded_numbers import FACTS, recorded

REFERENCE = model()


@dataclass(frozen=True)
class Made:
    """A reference in fp32 and candidates that are made up; which floors were asked for stays known."""

    as_it_is: RunNumbers
    in_fp32: RunNumbers
    asked: list[Numerics]

    def reference(self, *, fp32: bool) -> RunNumbers:
        return run(REFERENCE)

    def candidate(self, *, fp32: bool) -> RunNumbers:
        return self.in_fp32 if fp32 else self.as_it_is

    def floors(self, numerics: Numerics, *, fp32: bool) -> NumberFloors:
        self.asked.append(numerics)
        perturbed = [run(all_off(REFERENCE, PERTURBATION[numerics], seed)) for seed in (100, 200, 300)]
        return floors_of(run(REFERENCE), perturbed, numerics)


def checked(
    tensors: dict[TensorKey, Values], claimed: Numerics, *, lowered: bool = False, fp32: RunNumbers | None = None
) -> tuple[NumbersResult, list[Numerics]]:
    candidate = run(tensors, lowered=lowered)
    source = Made(candidate, fp32 or candidate, [])
    return check_source(source, claimed), source.asked


def test_the_same_bits_need_no_floor() -> None:
    result, asked = checked(dict(REFERENCE), Numerics.LOWER_PRECISION)
    assert (result.verdict, result.holds, result.score, asked) == (Numerics.BITWISE, True, 0.0, [])


@pytest.mark.parametrize("claimed", [Numerics.BITWISE, Numerics.REASSOCIATION])
def test_another_order_of_sums_is_not_the_same_bits(claimed: Numerics) -> None:
    result, asked = checked(all_off(REFERENCE, 1e-6, 7), claimed)
    assert (result.verdict, result.holds) == (Numerics.REASSOCIATION, claimed is Numerics.REASSOCIATION)
    assert asked == [Numerics.REASSOCIATION]


def test_what_is_off_by_more_is_different() -> None:
    result, _ = checked(all_off(REFERENCE, 1e-4, 7), Numerics.REASSOCIATION)
    assert (result.verdict, result.holds) == (Numerics.SEMANTICS, False)


@pytest.mark.parametrize("claimed", [Numerics.REASSOCIATION, Numerics.LOWER_PRECISION])
def test_lower_precision_is_told_also_where_it_was_not_claimed(claimed: Numerics) -> None:
    result, _ = checked(all_off(REFERENCE, 2e-3, 7), claimed, lowered=True, fp32=run(all_off(REFERENCE, 1e-6, 8)))
    assert result.verdict is Numerics.LOWER_PRECISION
    assert result.holds is (claimed is Numerics.LOWER_PRECISION)
    assert result.structure is not None
    assert result.precision is not None
    assert (result.first is not None) is (claimed is Numerics.REASSOCIATION)  # then it says where


def test_a_mistake_that_lower_precision_hides_is_found_in_fp32() -> None:
    wrong = {**REFERENCE, key("activation", "b"): off(REFERENCE[key("activation", "b")], 1e-3)}
    low = all_off(wrong, 2e-3, 7)
    result, _ = checked(low, Numerics.LOWER_PRECISION, lowered=True, fp32=run(wrong))
    assert result.verdict is Numerics.SEMANTICS
    assert result.first is not None
    assert result.first.key == key("activation", "b")


def test_a_lever_that_lowers_nothing_is_told_by_its_verdict() -> None:
    result, _ = checked(all_off(REFERENCE, 1e-6, 7), Numerics.LOWER_PRECISION)
    assert (result.verdict, result.holds) == (Numerics.REASSOCIATION, True)


def test_tensors_that_the_script_lowers_itself_leave_the_structure_unproven() -> None:
    low = all_off(REFERENCE, 1e-3, 7)
    lowered = replace(run(low), tensors={name: (tensor(values, dtype="bfloat16"),) for name, values in low.items()})
    result = check_source(Made(lowered, lowered, []), Numerics.LOWER_PRECISION)
    assert result.structure is None
    assert result.notes[0] == (
        "judged at the precision of bfloat16 only: the candidate itself makes start 'a.weight' of it"
    )
    assert result.verdict is Numerics.LOWER_PRECISION


def test_another_number_of_steps_is_refused() -> None:
    fewer = {name: values for name, values in REFERENCE.items() if name.step == 0}
    with pytest.raises(InputError, match="the reference took 2 steps and the candidate 1"):
        checked(fewer, Numerics.REASSOCIATION)


def test_what_differs_before_one_of_them_ends_is_told() -> None:
    fewer = {name: values for name, values in REFERENCE.items() if name.step == 0}
    wrong = {**fewer, key("gradient", "b.weight"): 2 * fewer[key("gradient", "b.weight")]}
    result, _ = checked(wrong, Numerics.REASSOCIATION)
    assert (result.verdict, result.steps) == (Numerics.SEMANTICS, 1)
    assert result.first is not None
    assert result.first.key.name == "b.weight"


def test_an_optimizer_in_one_of_them_only_is_refused() -> None:
    other = replace(run(REFERENCE), by_optimizer=False)
    with pytest.raises(InputError, match="an optimizer steps in the reference only"):
        check_source(Made(other, other, []), Numerics.REASSOCIATION)


def test_programs_without_a_common_name_are_refused() -> None:
    renamed = {name._replace(name=f"other.{name.name}"): values for name, values in REFERENCE.items()}
    with pytest.raises(InputError, match="no tensor of the same name"):
        checked(renamed, Numerics.REASSOCIATION)


def test_kept_runs_that_differ_need_perturbed_ones(tmp_path: Path) -> None:
    for name, value in (("before", 1.0), ("after", 1.0 + 2.0**-20)):
        folder = tmp_path / name / "run"
        folder.mkdir(parents=True)
        recorded(torch.full((30,), value)).write(str(folder), 0, FACTS)
    assert check_kept(tmp_path / "before", tmp_path / "before").verdict is Numerics.BITWISE
    with pytest.raises(InputError, match=r"does not tell whether by more than reassociation may; record it with the"):
        check_kept(tmp_path / "before", tmp_path / "after")
    for number in (1, 2, 3):
        folder = tmp_path / "before" / f"reassociation-{number}"
        folder.mkdir()
        recorded(torch.full((30,), 1.0 + 2.0**-21)).write(str(folder), 0, FACTS)
    assert check_kept(tmp_path / "before", tmp_path / "after").verdict is Numerics.REASSOCIATION
