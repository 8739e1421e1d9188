"""Mistakes that were found in other planners: a test for each, so that this one does not make them."""

import re
from dataclasses import replace

import numpy as np
import pytest

from bench.plan.rows import training_runs
from bench.plan.training import expressed_runs
from redline import plan_training
from redline.hardware.catalogue import find, machines
from redline.model.model import Model
from redline.model.parameters import count_parameters
from redline.plan.train.kernels import _attention_table, _matmul_table
from redline.plan.train.layout import Batch, Layout
from redline.plan.train.stacks import rates_of
from redline.plan.train.time.step import step_time
from redline.plan.train.time.step_costs import step_costs

GPT = Model(
    layers=8, hidden=1024, heads=16, kv_heads=16, head_dim=64, value_dim=64, ffn=4096, gated=0, vocab=51200, tied=1,
    attention_layers=8, dense_layers=8,
)  # fmt: skip
BATCH = Batch(sequence=2048, sequences=64)
RATES = rates_of(find("H100-SXM5-80GB"), "bf16", "megatron-core")


def step_s(model: Model) -> float:
    return float(step_time(step_costs(model, BATCH, Layout(micro_batch=4), RATES)).step_s)


@pytest.mark.parametrize(
    ("name", "gbit"), [("A100-SXM4-80GB", 200), ("H100-SXM5-80GB", 400), ("B200-SXM", 400), ("GB300", 800)]
)
def test_a_network_card_of_so_many_bits_has_an_eighth_of_bytes(name: str, gbit: float) -> None:
    assert find(name).figures["nic_bytes_per_s"].value == gbit * 1e9 / 8


def test_no_network_card_has_more_than_800_gbit() -> None:
    cards = [each.figures["nic_bytes_per_s"].value for each in machines() if "nic_bytes_per_s" in each.figures]
    assert len(cards) > 20
    assert max(cards) <= 100e9


def test_bits_of_a_request_become_bytes() -> None:
    machine = find("A100-SXM4-80GB")
    planned = plan_training("gpt2", machine=machine.name, gpus=8, sequence=1024, batch=8, nic_gbit=400)
    assert planned.plan.rates.nic_bytes_per_s == rates_of(machine, nic_bytes_per_s=50e9).nic_bytes_per_s


def test_a_machine_has_the_memory_of_its_name() -> None:
    named = [(each, re.search(r"-(\d+)GB", each.name)) for each in machines()]
    sizes = {each.name: (each.figures["memory_bytes"].value, float(size[1]) * 1e9) for each, size in named if size}
    assert len(sizes) > 10
    assert {name for name, (has, says) in sizes.items() if has != pytest.approx(says, rel=0.01)} == set()
    assert find("A10").figures["memory_bytes"].value == 24e9


@pytest.mark.parametrize("ffn", [2752, 3584, 5120, 16384])
def test_a_feed_forward_part_may_have_any_width(ffn: int) -> None:
    other = replace(GPT, ffn=ffn)
    more = count_parameters(other).total - count_parameters(GPT).total
    assert more == pytest.approx(8 * 2 * 1024 * (ffn - 4096), rel=0.01)  # and its biases
    assert (step_s(other) > step_s(GPT)) == (ffn > 4096)


def test_the_vocabulary_is_that_of_the_model() -> None:
    wide = replace(GPT, vocab=4 * GPT.vocab)
    assert count_parameters(wide).total - count_parameters(GPT).total == 3 * 51200 * 1024
    small, large = (step_costs(each, BATCH, Layout(micro_batch=4), RATES).head_forward_s for each in (GPT, wide))
    assert large == pytest.approx(4 * small, rel=0.05)


@pytest.mark.parametrize("stages", [2, 4])
def test_a_stage_gathers_its_own_layers_and_no_others(stages: int) -> None:
    layout = Layout(dp=8, pp=np.array([1.0, stages]), zero=3)
    found = step_costs(replace(GPT, vocab=0), BATCH, layout, RATES)
    whole, part = found.gather_s * found.layers_per_stage
    assert whole > 0
    assert part == pytest.approx(whole / stages)


def test_no_table_of_kernels_is_above_the_peak() -> None:
    matmuls = [law for dtype in ("bfloat16", "fp8") for law in _matmul_table(dtype).values()]
    attention = _attention_table().values()
    assert len(matmuls) > 10
    assert all(0 < compute <= 1 and 0 < memory <= 1 and fixed_s < 1e-4 for compute, memory, fixed_s in matmuls)
    assert all(0 < most <= 1 for most, _half in attention)


def test_runs_are_held_against_times_and_never_against_stated_flops() -> None:
    """What a source counts as FLOPs differs by a third: recomputation, hidden pairs of tokens, logits."""
    rows = training_runs()
    timed = ~np.isnan(rows.numbers("step_time_s")) | ~np.isnan(rows.numbers("tok_s_gpu"))
    only_flops = set(rows.text("id")[~timed & (rows.text("tflops_gpu") != "")])
    assert "MX0043" in only_flops
    assert not only_flops & set(expressed_runs().ids)


def test_rows_that_contradict_themselves_are_left_out() -> None:
    rows = training_runs()
    doubtful = {name for name, note in zip(rows.columns["id"], rows.columns["notes"], strict=True) if "CHECK" in note}
    assert doubtful
    assert not doubtful & set(expressed_runs().ids)
