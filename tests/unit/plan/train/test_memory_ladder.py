"""The published ladder of GPT-2 large from "Efficient Training in PyTorch" (2024), without a constant fitted to it.

Taken from the book's description: 774 M parameters (the vocabulary of GPT-2, head tied), batch 32. Taken from its code,
which is minGPT: sequences of 128 tokens, fp32, dropout 0.1, attention in single operators, and a tanh GELU in single
operators. That GELU keeps, per unit of width, its input, the tanh, half the input, one plus the tanh, and the result:
three more than an activation in one operator. Gradients live until the forward pass of the next step is over, because
the loop drops them after it. Peaks are torch's allocated bytes.
"""

from dataclasses import replace

import pytest

from redline.model.model import Model
from redline.model.parameters import count_parameters
from redline.plan.train.layout import Batch, Layout
from redline.plan.train.memory.footprint import Footprint, footprint
from redline.plan.train.memory.use import memory_use
from redline.plan.train.training_choices import Recompute

GPT2_LARGE = Model(
    layers=36, hidden=1280, heads=20, kv_heads=20, head_dim=64, value_dim=64, ffn=5120, gated=0, vocab=50257, tied=1,
    attention_layers=36, dense_layers=36, positions=1024, attention_bias=4 * 1280, ffn_bias=1,
    norm_weights=(4 * 36 + 2) * 1280,
)  # fmt: skip
MINGPT = replace(footprint("pytorch", "fp32"), dropout=1.0, extra_ffn=3.0)
LOOP = replace(MINGPT, step_bytes=0.0)
HALF = Layout(flash=0, micro_batch=16)
AGAIN = replace(HALF, recompute=Recompute.FULL)


def test_the_model_is_the_published_one() -> None:
    assert count_parameters(GPT2_LARGE).total == 774_030_080


@pytest.mark.parametrize(
    ("layout", "stack", "measured_gb"),
    [
        pytest.param(Layout(flash=0, micro_batch=32), MINGPT, 36.3, id="plain"),
        pytest.param(HALF, MINGPT, 25.2, id="accumulation"),
        pytest.param(AGAIN, MINGPT, 15.4, id="recompute"),
        pytest.param(AGAIN, LOOP, 13.1, id="loop optimizer"),
        pytest.param(replace(AGAIN, dp=2, zero=3), LOOP, 8.5, id="FSDP"),
    ],
)
def test_each_rung_is_within_a_fifth(layout: Layout, stack: Footprint, measured_gb: float) -> None:
    batch = Batch(sequence=128, sequences=32 * layout.dp)
    use = memory_use(GPT2_LARGE, batch, layout, stack)
    assert float(use.allocated_bytes) / 1e9 == pytest.approx(measured_gb, rel=0.2)
