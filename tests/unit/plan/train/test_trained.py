"""LoRA: what is trained, and what that makes of a step's time."""

import pytest

from redline.hardware.catalogue import find
from redline.model.huggingface import known_model
from redline.model.parameters import count_parameters
from redline.plan.train.layout import Batch, Layout, trained_parameters
from redline.plan.train.stacks import rates_of
from redline.plan.train.time.step import step_time
from redline.plan.train.time.step_costs import step_costs
from redline.plan.train.workload import Transformer

LLAMA = known_model("llama-3.1-8b")
BATCH = Batch(sequence=4096, sequences=64)


def test_adapters_of_rank_16_beside_every_matrix_of_llama_8b_are_42_million() -> None:
    """As PEFT counts them with target_modules all-linear: 41,943,040 of rank 16."""
    assert trained_parameters(LLAMA, Layout(lora=16)) == pytest.approx(41_943_040)
    assert trained_parameters(LLAMA, Layout(lora=32)) == pytest.approx(2 * 41_943_040)


def test_without_adapters_every_weight_is_trained() -> None:
    assert trained_parameters(LLAMA, Layout()) == pytest.approx(count_parameters(LLAMA).total)


def test_frozen_weights_have_no_gradients_and_no_optimizer() -> None:
    rates = rates_of(find("H100-SXM5-80GB"))
    whole, adapted = (
        step_time(step_costs(LLAMA, BATCH, Layout(dp=64, zero=1, lora=rank), rates)) for rank in (0.0, 16.0)
    )
    assert float(adapted.optimizer_s) < float(whole.optimizer_s) / 50
    assert float(adapted.reduce_s) < float(whole.reduce_s) / 5
    assert 0.6 < float(adapted.compute_s / whole.compute_s) < 0.8


def test_frozen_weights_count_no_flops_for_their_gradients() -> None:
    workload = Transformer(LLAMA)
    ratio = workload.flops_per_step(BATCH, adapters=True) / workload.flops_per_step(BATCH)
    assert 2 / 3 < ratio < 0.72  # attention has no weights
