"""Judgements on runs whose numbers are made up: scores, floors, and the tensor that is named."""

from math import inf, isnan

import numpy as np
import pytest

from redline.numerics import Numerics
from redline.trials.numbers.differences import NumberFloors, floors_of
from redline.trials.numbers.judgement import NumbersJudgement, judge
from redline.trials.numbers.run_numbers import RunNumbers, TensorKey
from tests.support.made_numbers import Values, all_off, key, model, off, run, tensor

REFERENCE = model()
NOISE = 1e-6


@pytest.fixture(scope="module")
def floors() -> NumberFloors:
    perturbed = [run(all_off(REFERENCE, NOISE, seed)) for seed in (100, 200, 300)]
    return floors_of(run(REFERENCE), perturbed, Numerics.REASSOCIATION)


def judged(candidate: dict[TensorKey, Values], floors: NumberFloors) -> NumbersJudgement:
    return judge(run(REFERENCE), run(candidate), floors)


def test_the_same_numbers_are_the_same_bits(floors: NumberFloors) -> None:
    result = judged(dict(REFERENCE), floors)
    assert (result.holds, result.same_bits, result.score, result.compared) == (True, True, 0.0, len(REFERENCE))


def test_what_is_off_like_the_floor_holds(floors: NumberFloors) -> None:
    result = judged(all_off(REFERENCE, 3 * NOISE, 7), floors)
    assert result.holds
    assert not result.same_bits
    assert 1 < result.score < 4


def test_what_is_off_by_more_does_not(floors: NumberFloors) -> None:
    result = judged(all_off(REFERENCE, 6 * NOISE, 7), floors)
    assert not result.holds
    assert result.deviating > 10


def test_the_first_tensor_is_named_with_gain_and_direction(floors: NumberFloors) -> None:
    wrong = {**REFERENCE, key("gradient", "b.weight"): 2 * REFERENCE[key("gradient", "b.weight")]}
    wrong[key("movement", "a.weight")] = off(wrong[key("movement", "a.weight")], 0.5)
    wrong[key("activation", "a", 1)] = off(wrong[key("activation", "a", 1)], 0.5)
    first = judged(wrong, floors).first
    assert first is not None
    assert first.key == key("gradient", "b.weight")
    assert (first.deviating, first.compared, first.same_direction) == (1, 3, True)
    assert first.difference.gain == pytest.approx(2.0)


def test_gradients_are_named_in_the_order_of_the_backward_pass(floors: NumberFloors) -> None:
    names = [key("gradient", name) for name in ("a.weight", "b.weight")]
    first = judged({**REFERENCE, **{name: off(REFERENCE[name], 1e-3) for name in names}}, floors).first
    assert first is not None
    assert first.key.name == "b.weight"


def test_of_the_movements_in_one_step_the_largest_is_named(floors: NumberFloors) -> None:
    wrong = {**REFERENCE}
    for name, share in (("a.weight", 0.01), ("b.weight", 0.5), ("c.weight", 0.1)):
        wrong[key("movement", name)] = off(wrong[key("movement", name)], share)
    first = judged(wrong, floors).first
    assert first is not None
    assert (first.key.name, first.deviating) == ("b.weight", 3)


def test_a_gradient_that_is_wrong_is_named_and_not_those_that_clipping_scales_with_it(floors: NumberFloors) -> None:
    wrong = {name: 0.8 * values if name.kind == "gradient" else values for name, values in REFERENCE.items()}
    wrong[key("gradient", "a.weight")] = off(wrong[key("gradient", "a.weight")], 0.5)
    result = judged(wrong, floors)
    assert result.first is not None
    assert (result.first.key.name, result.first.deviating) == ("a.weight", 3)


def test_of_buffers_the_one_that_changed_first_is_named() -> None:
    means = {key("movement", f"{name}.running_mean"): off(np.ones(32), 0.1) for name in "ab"}
    reference = {**REFERENCE, **means}
    perturbed = [run(all_off(reference, NOISE, seed)) for seed in (100, 200, 300)]
    wrong = {**reference, **{name: share * means[name] for name, share in zip(means, (0.9, 0.5), strict=True)}}
    judgement = judge(run(reference), run(wrong), floors_of(run(reference), perturbed, Numerics.REASSOCIATION))
    assert judgement.first is not None
    assert judgement.first.key.name == "a.running_mean"


@pytest.mark.parametrize("gradients", [1.0, 1024.0], ids=["divided", "not divided"])
def test_a_loss_that_is_scaled_is_right_where_gradients_are_divided_again(
    floors: NumberFloors, gradients: float
) -> None:
    factors = {"loss": 1024.0, "gradient": gradients}
    result = judged({name: factors.get(name.kind, 1.0) * values for name, values in REFERENCE.items()}, floors)
    assert result.holds == (gradients == 1.0)
    assert [skipped.why for skipped in result.skipped if skipped.key.kind == "loss"] == (
        ["it is multiplied by 1024, and gradients are not"] * 2 if gradients == 1.0 else []
    )


def test_a_loss_of_the_first_step_is_held_against_the_floor_of_that_step() -> None:
    loss = [key("loss", "loss", step) for step in (0, 1)]
    perturbed = [run({**REFERENCE, loss[1]: off(REFERENCE[loss[1]], 0.01, seed)}) for seed in (1, 2, 3)]
    known = floors_of(run(REFERENCE), perturbed, Numerics.REASSOCIATION)
    shares = [known.norms[name] / float(np.linalg.norm(REFERENCE[name])) for name in loss]
    assert shares == [pytest.approx(2.0**-21), pytest.approx(0.01, rel=0.5)]


def test_other_initial_weights_are_named_first(floors: NumberFloors) -> None:
    wrong = {name: off(values, 0.1) for name, values in REFERENCE.items()}
    first = judged(wrong, floors).first
    assert first is not None
    assert first.key == key("start", "a.weight")


def test_a_parameter_that_is_not_trained_is_found(floors: NumberFloors) -> None:
    without = {name: values for name, values in REFERENCE.items() if name.name != "b.weight"}
    first = judged(without, floors).first
    assert first is not None
    assert (first.key.name, first.difference.reason, first.score) == ("b.weight", "missing", inf)


def test_names_that_do_not_match_prove_nothing(floors: NumberFloors) -> None:
    renamed = {name._replace(name=name.name.replace("weight", "w")): values for name, values in REFERENCE.items()}
    result = judged(renamed, floors)
    assert not result.names_match
    assert not result.holds
    assert key("gradient", "a.weight") in result.only_reference
    assert key("gradient", "a.w") in result.only_candidate


def test_outputs_that_cannot_be_seen_are_told_and_no_deviation(floors: NumberFloors) -> None:
    hidden = [name for name in REFERENCE if name.kind == "activation" and name.name]
    result = judged({name: values for name, values in REFERENCE.items() if name not in hidden}, floors)
    assert result.holds
    assert result.same_bits
    assert list(result.only_reference) == hidden


def test_numbers_that_are_not_finite_deviate(floors: NumberFloors) -> None:
    name = key("gradient", "c.weight")
    broken = run({**REFERENCE, name: (tensor(REFERENCE[name], non_finite=1),)})
    first = judge(run(REFERENCE), broken, floors).first
    assert first is not None
    assert (first.key, first.difference.reason) == (name, "not finite")


def test_a_tensor_of_zeros_may_hold_a_rest_of_rounding(floors: NumberFloors) -> None:
    name = key("gradient", "c.weight")
    zero = {**REFERENCE, name: np.zeros(50)}
    floors = floors_of(run(zero), [run(zero)] * 3, Numerics.REASSOCIATION)
    rest = {**zero, name: np.full(50, 1e-8)}
    assert judge(run(zero), run(rest), floors).holds
    assert not judge(run(zero), run({**zero, name: np.full(50, 1e-4)}), floors).holds


def test_a_rest_of_rounding_may_be_another_rest() -> None:
    name = key("gradient", "c.weight")
    rest = {**REFERENCE, name: 1e-7 * REFERENCE[name]}  # as of a bias before a normalisation
    perturbed = {**rest, name: off(rest[name], 1.0)}
    floors = floors_of(run(rest), [run(perturbed)] * 3, Numerics.REASSOCIATION)
    assert judge(run(rest), run({**rest, name: off(rest[name], 20.0, 3)}), floors).holds
    assert not judge(run(rest), run({**rest, name: off(rest[name], 2e4, 3)}), floors).holds


def test_in_lower_precision_what_follows_another_token_is_left_out() -> None:
    tokens = {key("input", "", step): np.array([float(step)]) for step in (0, 1)}
    reference = {**REFERENCE, **tokens}
    wrong = {**reference, key("input", "", 1): np.array([7.0])}
    wrong |= {name: off(values, 0.5) for name, values in REFERENCE.items() if name.step == 1}
    for numerics, holds in ((Numerics.LOWER_PRECISION, True), (Numerics.REASSOCIATION, False)):
        floors = floors_of(run(reference), [run(reference)] * 3, numerics)
        result = judge(run(reference), run(wrong), floors)
        assert result.holds is holds
        assert {skipped.key.step for skipped in result.skipped} == ({1} if holds else set())


def test_a_floor_of_nothing_is_not_below_rounding() -> None:
    floors = floors_of(run(REFERENCE), [run(REFERENCE)] * 3, Numerics.REASSOCIATION)
    one_unit = {name: values * (1 + 2.0**-23) for name, values in REFERENCE.items()}
    assert judge(run(REFERENCE), run(one_unit), floors).holds


def test_chance_that_rounds_a_loss_to_the_same_bits_lowers_no_floor() -> None:
    perturbed = all_off(REFERENCE, NOISE, 5)
    perturbed[key("loss", "loss", 1)] = REFERENCE[key("loss", "loss", 1)]
    floors = floors_of(run(REFERENCE), [run(perturbed)], Numerics.REASSOCIATION)
    shares = [floors.norms[key("loss", "loss", step)] / abs(REFERENCE[key("loss", "loss", step)][0]) for step in (0, 1)]
    assert shares[0] == pytest.approx(shares[1])
    assert shares[0] == pytest.approx(NOISE)


def test_curves_say_what_they_alone_would_have_said(floors: NumberFloors) -> None:
    wrong = {**REFERENCE, key("loss", "loss", 1): REFERENCE[key("loss", "loss", 1)] * 1.02}
    curves = judged(wrong, floors).curves
    assert curves.loss == pytest.approx(0.02)
    assert curves.gradient_norm == 0.0
    only_loss = {name: values for name, values in REFERENCE.items() if name.kind == "loss"}
    assert isnan(judge(run(only_loss), run(only_loss), floors).curves.gradient_norm)


def ranks(tensors: dict[TensorKey, Values], world: int) -> RunNumbers:
    copies = {
        name: tuple(tensor(values, copy=f"rank {rank}") for rank in range(world)) for name, values in tensors.items()
    }
    return run(copies, world=world)


def test_a_rank_that_is_off_is_found_among_copies(floors: NumberFloors) -> None:
    name = key("gradient", "a.weight")
    right = ranks(REFERENCE, 2)
    wrong = {**right.tensors, name: (right.tensors[name][0], tensor(REFERENCE[name] * 1.1, copy="rank 1"))}
    assert judge(run(REFERENCE), right, floors).holds
    first = judge(run(REFERENCE), run(wrong, world=2), floors).first
    assert first is not None
    assert first.key == name


def test_ranks_that_share_the_batch_are_judged_by_gradients_and_the_mean_of_their_losses(floors: NumberFloors) -> None:
    halves = dict(ranks(REFERENCE, 2).tensors)
    loss = REFERENCE[key("loss", "loss")]
    halves[key("loss", "loss")] = (tensor(loss * 0.5), tensor(loss * 1.5, copy="rank 1"))
    halves |= {
        name: tuple(tensor(half * 9, copy=f"rank {rank}") for rank, half in enumerate(np.split(REFERENCE[name], 2)))
        for name in REFERENCE
        if name.kind == "activation"
    }
    result = judge(run(REFERENCE), run(halves, world=2), floors)
    assert result.holds
    assert {skipped.why for skipped in result.skipped} == {"each rank has its own part of the batch"}


def test_with_the_same_ranks_each_is_held_against_itself(floors: NumberFloors) -> None:
    name = key("activation", "b")
    other = {name: off(values, 0.5) for name, values in REFERENCE.items()}
    both = {name: (tensor(values), tensor(other[name], copy="rank 1")) for name, values in REFERENCE.items()}
    swapped = {**both, name: (tensor(other[name]), tensor(REFERENCE[name], copy="rank 1"))}
    assert judge(run(both, world=2), run(both, world=2), floors).same_bits
    first = judge(run(both, world=2), run(swapped, world=2), floors).first
    assert first is not None
    assert first.key == name


def test_outputs_of_another_shape_are_skipped(floors: NumberFloors) -> None:
    name = key("activation", "b")
    result = judged({**REFERENCE, name: np.ones(7)}, floors)
    assert result.holds
    assert [(skipped.key, skipped.why) for skipped in result.skipped] == [(name, "its shapes differ: [80] and [7]")]


@pytest.mark.parametrize("dropout", ["a.dropout", "a", "dropout", ""])
def test_a_dropout_that_is_left_out_is_seen_unless_the_compiler_hides_it(dropout: str) -> None:
    inside = {key("activation", name): np.ones(8) for name in ("a.norm", "b.norm")}
    reference = run({**REFERENCE, **inside, key("dropout", dropout): np.array([0.1])})
    floors = floors_of(reference, [reference] * 3, Numerics.REASSOCIATION)
    left_out = judge(reference, run({**REFERENCE, **inside}), floors)
    assert left_out.first is not None
    assert left_out.first.key == key("dropout", dropout)
    compiled = {name: values for name, values in REFERENCE.items() if name.kind != "activation" or not name.name}
    assert judge(reference, run(compiled), floors).holds


def test_a_dropout_of_nothing_may_be_left_out() -> None:
    inside = {key("activation", "a.norm"): np.ones(8)}
    reference = run({**REFERENCE, **inside, key("dropout", "a.dropout"): np.array([0.0])})
    floors = floors_of(reference, [reference] * 3, Numerics.REASSOCIATION)
    assert judge(reference, run({**REFERENCE, **inside}), floors).holds
