"""A module of the user's own is planned as any model: by what was counted of it, with copies and ZeRO."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from redline.errors import UsageError
from redline.hardware.catalogue import find
from redline.hardware.machine import Figure
from redline.model.huggingface import describe
from redline.model.model import CountedModule, Model, Operator
from redline.plan.train.layout import Batch, Layout
from redline.plan.train.memory.footprint import footprint
from redline.plan.train.search.plan import TrainingRequest, plan_training, refuse_impossible
from redline.plan.train.search.space import Space, module_layouts
from redline.plan.train.simulation.predicted import simulate
from redline.plan.train.stacks import rates_of, stack_names
from redline.plan.train.time.layer import OPERATORS_PER_LAYER
from redline.plan.train.training_choices import Recompute
from redline.plan.train.workload import Module, Transformer

H100 = find("H100-SXM5-80GB")
MIB = 2**20


def operator(
    name: str, *, mib: int, backward: bool = False, calls: int = 1, flops: int = 0, parameters: int = 0
) -> Operator:
    return Operator(
        name=name, backward=backward, shapes=(), calls=calls, flops=flops, bytes=mib * MIB,
        parameter_bytes=parameters * MIB,
    )  # fmt: skip


# One layer repeated: a product that computes, a sum that moves memory, and what both need backwards.
SMALL = CountedModule(
    name="Small",
    parameters=8 * 1_000_000,
    trained_parameters=8 * 1_000_000,
    parameter_bytes=32 * 1_000_000,
    forward_flops=8 * 10**10,
    backward_flops=16 * 10**10,
    kept_bytes=80 * MIB,
    operators=(
        operator("mm", calls=8, flops=8 * 10**10, mib=96, parameters=32),
        operator("add", calls=16, mib=480),
        operator("mm", backward=True, calls=16, flops=16 * 10**10, mib=192, parameters=64),
        operator("add", backward=True, calls=16, mib=480),
    ),
    samples=4,
    blocks=8,
    block_inputs_bytes=8 * MIB,
    blocks_kept_bytes=72 * MIB,
    largest_block_bytes=12 * MIB,
)  # fmt: skip
REQUEST = TrainingRequest(workload=Module(SMALL), machine=H100, devices=8, sequence=1, sequences=256)


def one(**given: float) -> Layout:
    return Layout(**{name: np.array([float(value)]) for name, value in {"dp": 1, "micro_batch": 4, **given}.items()})


def test_a_plan_has_copies_and_zero_and_nothing_else() -> None:
    plan = plan_training(REQUEST)
    every = module_layouts(Batch(sequence=1, sequences=256), Space(devices=8))
    assert plan.considered == np.size(every.dp) == 6 * 4 * 2  # micro-batches, stages of ZeRO, recomputation or none
    assert plan.fits
    assert (plan.unit, plan.tokens_per_step, plan.parameters) == ("samples", 256, 8_000_000)
    assert plan.best.tokens_per_s == pytest.approx(256 / plan.best.step_s)
    assert {(each.layout.dp, each.layout.tp, each.layout.pp) for each in plan.ranked} == {(8.0, 1.0, 1.0)}
    assert plan.evidence == ()  # nobody has measured it


def test_the_closed_form_is_the_played_through_step() -> None:
    plan = plan_training(replace(REQUEST, fixed={"zero": (3.0,), "micro_batch": (4.0,)}))
    assert simulate(plan.step_costs).step_s == pytest.approx(plan.best.step_s, rel=0.02)


def test_time_grows_with_the_micro_batch_but_not_that_of_parameters() -> None:
    rates = replace(rates_of(H100), fixed_s=0.0)
    batch = Batch(sequence=1, sequences=64)
    four, eight = (Module(SMALL).step_costs(batch, one(micro_batch=size), rates).forward_s[0] for size in (4, 8))
    assert eight == pytest.approx(2 * four)  # the product computes longer than it moves
    relu = operator("relu", mib=30, parameters=10)
    moving = replace(SMALL, operators=(relu,))
    four, eight = (Module(moving).step_costs(batch, one(micro_batch=size), rates).forward_s[0] for size in (4, 8))
    assert eight / four == pytest.approx(50 / 30)


def test_a_table_is_looked_up_and_not_read() -> None:
    read = operator("relu", mib=30, parameters=20)
    rates = replace(rates_of(H100), fixed_s=0.0)
    times = [
        Module(replace(SMALL, operators=(each,))).step_costs(Batch(sequence=1, sequences=4), one(), rates).forward_s[0]
        for each in (read, replace(read, name="embedding"))
    ]
    assert times[0] == pytest.approx(3 * times[1])


def test_recomputing_repeats_the_forward_pass_and_keeps_inputs_and_one_block() -> None:
    rates, foot, batch = rates_of(H100), footprint("default"), Batch(sequence=1, sequences=4)
    kept, again = one(), one(recompute=Recompute.FULL)
    before, after = (Module(SMALL).step_costs(batch, layout, rates) for layout in (kept, again))
    assert after.recompute_s[0] == before.forward_s[0] > 0
    assert before.recompute_s[0] == 0
    much, little = (Module(SMALL).memory(batch, layout, foot).activations_bytes[0] for layout in (kept, again))
    # Of 32-bit numbers, in 16 bits; 8 MiB are kept outside blocks.
    assert much - little == (80 - (8 + 8 + 12)) * MIB / 2


def test_states_are_those_of_any_model_and_zero_divides_them() -> None:
    foot, batch = footprint("default"), Batch(sequence=1, sequences=32)
    plain, split = (Module(SMALL).memory(batch, one(dp=8, zero=zero), foot) for zero in (0, 3))
    states = [each.weights_bytes + each.gradients_bytes + each.optimizer_bytes for each in (plain, split)]
    assert states[0] == 16 * SMALL.parameters
    assert states[1] == 2 * SMALL.parameters
    half = replace(SMALL, trained_parameters=SMALL.parameters // 2)
    frozen = Module(half).memory(batch, one(), foot)
    assert frozen.weights_bytes + frozen.gradients_bytes + frozen.optimizer_bytes == (2 + 14 / 2) * SMALL.parameters


def test_a_calibrated_host_takes_the_place_of_the_fitted_one() -> None:
    rates = rates_of(H100)
    assert Module(SMALL).rates(rates, H100) is rates
    each = {"dispatch_ns": 5000.0, "launch_ns": 2000.0}
    figures = {name: Figure(value=value, source="measured", date="2026-08") for name, value in each.items()}
    measured = Module(SMALL).rates(rates, replace(H100, figures={**H100.figures, **figures}))
    assert measured.host_layer_s == pytest.approx(OPERATORS_PER_LAYER * 5e-6)
    layer = Module(SMALL).step_costs(Batch(sequence=1, sequences=4), one(), measured)
    assert layer.host_forward_s[0] == pytest.approx((8 + 16) / 8 * 5e-6)


@pytest.mark.parametrize(
    ("fixed", "said"),
    [
        ({"tp": (2.0,)}, "tp: a module of your own is planned with copies of it and ZeRO or FSDP"),
        ({"pp": (1.0, 4.0)}, "pp: a module of your own"),
        ({"cp": (2.0,)}, "leave that out, or describe a transformer"),
        ({"ep": (2.0,)}, "ep: a module of your own"),
        ({"flash": (0.0,)}, "flash: a module of your own"),
        ({"recompute": (1.0,)}, "recompute selective is for transformers; a module of your own has none or full"),
        ({"micro_batch": (3.0,)}, "a batch of 256 samples is no multiple of that"),
        ({"dp": (3.0,)}, "that does not divide 8 GPUs"),
    ],
)
def test_what_only_transformers_have_is_refused(fixed: dict[str, tuple[float, ...]], said: str) -> None:
    with pytest.raises(UsageError) as raised:
        refuse_impossible(replace(REQUEST, fixed=fixed))
    assert said in str(raised.value)
    assert len(str(raised.value).splitlines()) <= 2


def test_what_cannot_be_dealt_to_copies_says_so() -> None:
    refuse_impossible(replace(REQUEST, fixed={"tp": (1.0,)}))
    with pytest.raises(UsageError, match="256 samples per step\ncopies have to divide the batch; change the batch"):
        plan_training(replace(REQUEST, devices=6))
    with pytest.raises(UsageError, match="has tp 2 with the rest that you fixed"):
        plan_training(replace(REQUEST, fixed={"tp": (2.0,)}))


# --- modules in torch -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gpt2() -> CountedModule:
    return counted("gpt2")


def counted(name: str) -> CountedModule:
    pytest.importorskip("torch")
    from redline.calibration.count_module import count_module
    from tests.support import torch_models

    return count_module(f"{Path(torch_models.__file__)}:{name}")


def gpt2_in_numbers() -> Model:
    return describe(
        layers=12, hidden=768, heads=12, vocab=50257, gated=0, tied=1, positions=1024, attention_bias=4 * 768,
        ffn_bias=1, norm_weights=2 * 25 * 768,
    )  # fmt: skip


@pytest.mark.parametrize("stack", stack_names())
def test_gpt2_costs_as_a_module_what_it_costs_in_numbers(gpt2: CountedModule, stack: str) -> None:
    """Kernels too small to fill a device take a fixed time for each operator, which numbers do not know."""
    numbers, rates = gpt2_in_numbers(), rates_of(H100, stack_name=stack)
    both = []
    for workload, sequence in ((Module(gpt2), 1), (Transformer(numbers), 1024)):
        found = workload.step_costs(Batch(sequence=sequence, sequences=16), one(micro_batch=16), rates)
        both.append(12 * (found.forward_s + found.backward_s)[0] + (found.head_forward_s + found.head_backward_s)[0])
    assert both[0] == pytest.approx(both[1], rel=0.15)


def test_gpt2_has_the_same_parameters_flops_and_memory_both_ways(gpt2: CountedModule) -> None:
    numbers = gpt2_in_numbers()
    module_plan = plan_training(replace(REQUEST, workload=Module(gpt2), sequences=64, fixed={"micro_batch": (8.0,)}))
    numbered = replace(REQUEST, workload=Transformer(numbers), sequence=1024, sequences=64)
    plan = plan_training(replace(numbered, fixed={"micro_batch": (8.0,)}))
    assert module_plan.parameters == plan.parameters == 124_439_808
    flops = [Module(gpt2).flops_per_step(Batch(sequence=1, sequences=64)), plan.flops_per_step]
    assert flops[0] == pytest.approx(flops[1], rel=1e-3)
    assert module_plan.best.step_s == pytest.approx(plan.best.step_s, rel=0.25)
    layout = one(micro_batch=8, dp=8)
    foot = footprint("default")
    of_module = Module(gpt2).memory(Batch(sequence=1, sequences=64), layout, foot).peak_bytes[0]
    assert of_module == pytest.approx(
        Transformer(numbers).memory(Batch(sequence=1024, sequences=64), layout, foot).peak_bytes[0], rel=0.2
    )


@pytest.mark.parametrize(
    ("name", "parameters", "multiplications"), [("resnet50", 25_557_032, 4.09e9), ("resnext50", 25_028_904, 4.23e9)]
)
def test_residual_networks_are_what_torchvision_says_and_their_blocks_are_found(
    name: str, parameters: int, multiplications: float
) -> None:
    found = counted(name)
    assert (found.parameters, found.blocks, found.samples) == (parameters, 16, 8)
    assert found.forward_flops / found.samples == pytest.approx(2 * multiplications, rel=0.01)
    plan = plan_training(replace(REQUEST, workload=Module(found), sequences=2048))
    assert plan.fits
    assert plan.best.layout.micro_batch >= 32
