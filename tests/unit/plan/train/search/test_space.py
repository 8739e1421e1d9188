"""Every layout that is considered can run, none that could is forgotten, and wishes are kept."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redline.model.model import Model
from redline.plan.train.layout import Batch
from redline.plan.train.search.space import Space, layouts
from redline.plan.train.stacks import abilities
from redline.plan.train.training_choices import PipelineSchedule

MODEL = Model(
    layers=12, hidden=1024, heads=16, kv_heads=4, head_dim=64, value_dim=64, ffn=4096, gated=1, vocab=50304, tied=0,
    attention_layers=12, dense_layers=12,
)  # fmt: skip
BATCH = Batch(sequence=2048, sequences=64)


def splits(space: Space, model: Model = MODEL, batch: Batch = BATCH) -> set[tuple[float, ...]]:
    found = layouts(model, batch, space)
    return {tuple(row) for row in np.stack([found.dp, found.tp, found.pp, found.cp], axis=1).tolist()}


@settings(max_examples=40, deadline=None)
@given(
    devices=st.sampled_from([1, 2, 3, 8, 12, 16, 24, 64]),
    sequences=st.sampled_from([1, 8, 24, 64]),
    experts=st.sampled_from([0, 8]),
)
def test_every_layout_can_run(devices: int, sequences: int, experts: int) -> None:
    model = replace(MODEL, experts=experts)
    found = layouts(model, replace(BATCH, sequences=sequences), Space(devices=devices))
    dp, tp, pp, cp = (np.asarray(getattr(found, name)) for name in ("dp", "tp", "pp", "cp"))
    assert (dp * tp * pp * cp == devices).all()
    assert (sequences % (dp * found.micro_batch) == 0).all()
    assert (16 % tp == 0).all()
    assert (pp * found.chunks <= 12 + 2).all()
    assert (found.chunks[np.asarray(pp == 1)] == 1).all()  # type: ignore[index]
    assert (dp * cp % np.asarray(found.ep) == 0).all()
    assert (np.asarray(found.zero)[dp * cp == 1] == 0).all()
    assert (np.asarray(found.sequence_parallel) == (tp > 1)).all()


def test_no_split_is_forgotten() -> None:
    powers = (1, 2, 4, 8, 16)
    wanted = {
        (16 / (tp * pp * cp), tp, pp, cp)
        for tp, pp, cp in product(
            powers, (1, 2, 4), (1, 2)
        )  # 12 layers: 8 stages would be too uneven; 2048 / cp >= 1024
        if 16 % (tp * pp * cp) == 0
    }
    assert splits(Space(devices=16)) == wanted


def test_each_layout_stands_once() -> None:
    found = layouts(MODEL, BATCH, Space(devices=64))
    names = ("dp", "tp", "pp", "cp", "ep", "micro_batch", "chunks", "schedule", "zero", "shard", "recompute")
    rows = np.stack([np.asarray(getattr(found, name)) for name in names], axis=1)
    assert len(np.unique(rows, axis=0)) == len(rows) > 1000


@pytest.mark.parametrize(
    ("name", "value"), [("tp", 4), ("pp", 2), ("dp", 2), ("cp", 2), ("zero", 3), ("micro_batch", 2), ("recompute", 2)]
)
def test_a_wish_is_kept(name: str, value: int) -> None:
    found = layouts(MODEL, BATCH, Space(devices=16, fixed={name: (value,)}))
    assert set(np.asarray(getattr(found, name)).tolist()) == {value}


def test_a_wish_that_cannot_be_leaves_nothing() -> None:
    assert len(np.asarray(layouts(MODEL, BATCH, Space(devices=16, fixed={"tp": (3,)})).dp)) == 0


def test_gpipe_is_only_for_those_who_ask() -> None:
    assert PipelineSchedule.GPIPE not in np.asarray(layouts(MODEL, BATCH, Space(devices=16)).schedule)
    asked = layouts(MODEL, BATCH, Space(devices=16, fixed={"schedule": (PipelineSchedule.GPIPE,), "pp": (2,)}))
    assert set(np.asarray(asked.schedule).tolist()) == {PipelineSchedule.GPIPE}


def test_126_layers_have_16_stages_as_the_embedding_and_the_head_count() -> None:
    large = replace(MODEL, layers=126, heads=128, kv_heads=8, attention_layers=126, dense_layers=126)
    space = Space(devices=1024, fixed={"pp": (16,), "tp": (8,)})
    found = layouts(large, Batch(sequence=8192, sequences=2048), space)
    assert {1, 2, 4, 8} <= set(np.asarray(found.chunks).tolist())


def test_zero_3_may_stay_inside_a_node() -> None:
    found = layouts(MODEL, BATCH, Space(devices=32, fixed={"zero": (3,), "tp": (1,), "pp": (1,), "cp": (1,)}))
    assert set(np.asarray(found.shard).tolist()) == {0, 8}


@pytest.mark.parametrize(("wanted", "kept"), [(4, {4}), (16, {16}), (32, {0}), (7, set())])
def test_zero_splits_over_any_group_that_divides_the_copies(wanted: int, kept: set[int]) -> None:
    fixed = {"zero": (1.0, 3.0), "shard": (float(wanted),), "tp": (1.0,), "pp": (1.0,), "cp": (1.0,)}
    found = layouts(MODEL, BATCH, Space(devices=32, fixed=fixed))
    assert set(np.asarray(found.shard).tolist()) == kept


def test_a_micro_batch_is_any_that_divides_a_copy_of_those_who_ask() -> None:
    batch = replace(BATCH, sequences=96)
    searched = layouts(MODEL, batch, Space(devices=8))
    asked = layouts(MODEL, batch, Space(devices=8, fixed={"micro_batch": (12.0,)}))
    assert 12 not in np.asarray(searched.micro_batch)
    assert set(np.asarray(asked.micro_batch).tolist()) == {12}


def test_sequences_are_cut_into_equal_pieces() -> None:
    """With a causal mask each device of context parallelism has an early and a late piece."""
    seven = Space(devices=7, fixed={"cp": (7.0,)})
    assert len(np.asarray(layouts(MODEL, Batch(sequence=8192, sequences=7), seven).dp)) == 0
    assert len(np.asarray(layouts(MODEL, Batch(sequence=14 * 1024, sequences=7), seven).dp)) > 0
    odd = Space(devices=2, fixed={"tp": (2.0,)})
    assert len(np.asarray(layouts(MODEL, Batch(sequence=2047, sequences=8), odd).dp)) == 0
    whole = replace(odd, fixed={**odd.fixed, "sequence_parallel": (0.0,)})
    assert len(np.asarray(layouts(MODEL, Batch(sequence=2047, sequences=8), whole).dp)) > 0


@pytest.mark.parametrize("stack", ["megatron-core", "deepspeed", "nanotron", "torchtitan", "composer", "fsdp"])
def test_nothing_is_proposed_that_a_stack_cannot_run(stack: str) -> None:
    able = abilities(stack)
    found = layouts(MODEL, BATCH, Space(devices=16, abilities=able))
    assert len(np.asarray(found.dp)) > 10
    for name, values in able.only.items():
        assert set(np.unique(np.asarray(getattr(found, name)))) <= set(values), name
    piped = np.asarray(found.pp) > 1
    stages = set(np.asarray(found.zero)[piped].tolist())
    assert able.zero_in_pipeline is None or stages <= set(able.zero_in_pipeline)


def test_experts_are_spread_and_not_cut() -> None:
    sparse = replace(MODEL, experts=8, experts_per_token=2, expert_ffn=4096, moe_layers=12, dense_layers=0)
    assert layouts(sparse, BATCH, Space(devices=16)).expert_tp == 1
    assert layouts(MODEL, BATCH, Space(devices=16)).expert_tp == 0
