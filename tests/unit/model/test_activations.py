"""What layers keep for the backward pass: the published formula, and what each way of running a layer changes."""

import numpy as np
import pytest

from redline.model.activations import Practice, bytes_kept, layer_activations
from redline.model.huggingface import describe

SEQUENCE, HIDDEN, HEADS = 2048, 1024, 16
CLASSIC = Practice(flash=0, dropout=1)
GPT = describe(layers=1, hidden=HIDDEN, heads=HEADS, vocab=50257, gated=0)
LLAMA = describe(layers=1, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocab=128256)


def test_the_classic_layer_keeps_what_korthikanti_derived() -> None:
    kept = layer_activations(GPT, SEQUENCE, CLASSIC)
    assert bytes_kept(kept) == 34 * HIDDEN + 5 * HEADS * SEQUENCE


@pytest.mark.parametrize("tp", [2, 4, 8])
def test_tensor_parallelism_divides_all_but_ten(tp: int) -> None:
    kept = layer_activations(GPT, SEQUENCE, CLASSIC)
    assert bytes_kept(kept, tp=tp) == HIDDEN * (10 + 24 / tp) + 5 * HEADS * SEQUENCE / tp
    assert bytes_kept(kept, tp=tp, sequence_parallel=1) == (34 * HIDDEN + 5 * HEADS * SEQUENCE) / tp


def test_recomputation_drops_scores_and_then_everything_but_the_input() -> None:
    kept = layer_activations(GPT, SEQUENCE, CLASSIC)
    assert bytes_kept(kept, recompute=1) == 34 * HIDDEN
    assert bytes_kept(kept, recompute=2) == 2 * HIDDEN


def test_a_modern_layer_keeps_eight_widths_of_a_gated_part_and_a_logarithm_per_head() -> None:
    kept = layer_activations(LLAMA, 8192, Practice())
    norms, inputs = 2 * 2 * 4096, 2 * 2 * 4096
    attention = 2 * (32 + 2 * 8) * 128 + 4 * 32 + 2 * 4096
    assert bytes_kept(kept) == norms + inputs + attention + 8 * 14336
    assert bytes_kept(kept, recompute=1) == bytes_kept(kept)


def test_fused_kernels_keep_less_and_single_operators_more() -> None:
    usual, fused, single = (
        bytes_kept(layer_activations(LLAMA, 8192, practice))
        for practice in (Practice(), Practice(fused_gate=1), Practice(fused_norm=0))
    )
    assert usual - fused == 2 * 14336
    assert single - usual == 2 * (2 + 2) * 4096


def test_each_chosen_expert_keeps_a_copy_of_the_token() -> None:
    def kept(each: int) -> float:
        model = describe(
            layers=1, hidden=64, heads=4, vocab=100, moe_layers=1, experts=8, experts_per_token=each, expert_ffn=32
        )
        return float(bytes_kept(layer_activations(model, 128, Practice())))

    assert kept(3) - kept(2) == 2 * 2 * 64 + 8 * 32


def test_columns_of_layouts_give_what_each_gives_alone() -> None:
    kept = layer_activations(GPT, SEQUENCE, CLASSIC)
    tp, parallel, recompute = np.array([1.0, 2, 4, 8]), np.array([0.0, 0, 1, 1]), np.array([0.0, 1, 2, 0])
    together = bytes_kept(kept, tp=tp, sequence_parallel=parallel, recompute=recompute)
    alone = [
        float(bytes_kept(kept, tp=float(t), sequence_parallel=float(p), recompute=float(r)))
        for t, p, r in zip(tp, parallel, recompute, strict=True)
    ]
    assert np.array_equal(together, alone)
