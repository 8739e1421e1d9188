"""FLOPs, caches and parameters by hand on small cases, and properties that hold for any model."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.model.activations import Practice, bytes_kept, layer_activations
from redline.model.flops import Pairs, attention_pairs, backward_flops, forward_flops, forward_matmuls
from redline.model.huggingface import changed, describe, known_model
from redline.model.model import Model
from redline.model.parameters import active_parameters, cache_bytes, count_parameters, layer_parameters

COUNTED = ("llama-3.1-8b", "mixtral-8x7b", "deepseek-v3", "gpt-oss-20b", "gemma-2-9b", "gpt2", "bert-base", "dit-xl-2")
SPECIAL = ("sd3-medium", "wan2.1-14b", "deepseek-v2-lite", "qwen2-57b-a14b")


def hybrid() -> Model:
    """Mamba-2 in three of four layers."""
    state = {"state_inner": 256, "state_size": 16, "state_groups": 2, "state_heads": 8, "state_conv": 4}
    return describe(layers=4, hidden=128, heads=4, vocab=1000, state_layers=3, **state)


def all_numbers(model: Model, sequence: float) -> dict[str, Any]:
    """Everything that is counted of a model."""
    kept = layer_activations(model, sequence, Practice(flash=0, dropout=1))
    return {
        "parameters": count_parameters(model).total,
        "active": active_parameters(model),
        "layer": layer_parameters(model).total,
        "forward": forward_flops(model, 4 * sequence, sequence, Pairs.SEEN).total,
        "backward": backward_flops(model, 4 * sequence, sequence, Pairs.ALL).total,
        "kept": bytes_kept(kept, tp=2, sequence_parallel=1, recompute=1),
        "cache": cache_bytes(model, sequence),
    }


def column(models: list[Model]) -> Model:
    names = [field.name for field in fields(Model) if field.name != "name"]
    numbers: dict[str, Any] = {name: np.array([float(getattr(model, name)) for model in models]) for name in names}
    return Model(**numbers)


@given(st.integers(1, 10_000))
def test_a_column_of_models_gives_what_each_gives_alone(sequence: int) -> None:
    models = [*(known_model(name) for name in COUNTED + SPECIAL), hybrid()]
    together = all_numbers(column(models), sequence)
    for row, model in enumerate(models):
        for name, alone in all_numbers(model, sequence).items():
            assert together[name][row] == pytest.approx(alone, rel=1e-12), (model.name, name)


WIDTHS = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "experts", "expert_ffn", "shared_ffn")


@given(
    st.fixed_dictionaries({name: st.integers(1, 64) for name in WIDTHS}),
    st.sampled_from(WIDTHS),
    st.sampled_from([0, 1]),
)
def test_parameters_grow_with_every_width(sizes: dict[str, int], grown: str, gated: int) -> None:
    def total(sizes: dict[str, int]) -> float:
        layers = {"moe_layers": sizes["layers"], "dense_layers": sizes["layers"], "experts_per_token": 1}
        return float(count_parameters(describe(gated=gated, **sizes, **layers)).total)

    assert total(sizes | {grown: sizes[grown] + 1}) > total(sizes)


def test_names_of_matmuls_are_the_same_for_every_model() -> None:
    names = {tuple(matmul.name for matmul in forward_matmuls(known_model(name))) for name in COUNTED + SPECIAL}
    assert len(names) == 1
    (only,) = names
    assert len(set(only)) == len(only)


def test_only_experts_are_routed() -> None:
    routed = [matmul for matmul in forward_matmuls(known_model("mixtral-8x7b")) if matmul.routed]
    assert [(each.name, each.rows_per_token, each.copies) for each in routed] == [
        ("expert_up", 2, 8),
        ("expert_down", 2, 8),
    ]


def test_parts_of_parameters_are_those_of_the_tables() -> None:
    counted = count_parameters(known_model("llama-3.1-8b"))
    assert counted.attention == 32 * (4096 * 6144 + 4096 * 4096)
    assert counted.dense == 32 * 3 * 4096 * 14336
    assert counted.embedding == counted.head == 128256 * 4096
    assert counted.norms == 65 * 4096
    moe = layer_parameters(known_model("mixtral-8x7b"))
    assert moe.experts == 8 * 3 * 4096 * 14336
    assert moe.whole == (65 * 4096 + 32 * 4096 * 8) / 32


@pytest.mark.parametrize(
    ("name", "billions"),
    [("mixtral-8x7b", 12.9), ("deepseek-v3", 37.6), ("qwen3-235b-a22b", 22.2), ("qwen3-30b-a3b", 3.35)],
)
def test_active_parameters_are_those_that_a_token_meets(name: str, billions: float) -> None:
    assert active_parameters(known_model(name)) / 1e9 == pytest.approx(billions, abs=0.05)


def test_flops_of_a_dense_model_are_six_per_parameter_and_token_and_twelve_of_attention() -> None:
    """The rule of thumb: 6 N per token, plus 12 x layers x hidden x sequence for the full square of attention."""
    model, sequence = describe(layers=12, hidden=768, heads=12, vocab=50257, gated=0), 1024
    matrices = 12 * 12 * 768**2 + 50257 * 768
    step = forward_flops(model, sequence, sequence, Pairs.ALL).total
    step += backward_flops(model, sequence, sequence, Pairs.ALL, flash=0).total
    assert step / sequence == 6 * matrices + 12 * 12 * 768 * sequence


@given(st.integers(1, 40), st.integers(1, 50), st.sampled_from([0, 1]))
def test_pairs_are_those_that_the_mask_lets_through(sequence: int, window: int, causal: int) -> None:
    model = describe(layers=3, hidden=8, heads=2, vocab=0, window=window, window_layers=1, causal=causal)
    assert attention_pairs(model, sequence, Pairs.ALL) == 3 * sequence**2
    full = sum(query >= key or not causal for query in range(sequence) for key in range(sequence))
    near = sum(query >= key > query - window for query in range(sequence) for key in range(sequence))
    windowed = near if causal else sequence * min(sequence, window)
    assert attention_pairs(model, sequence, Pairs.SEEN) == 2 * full + windowed


def test_fused_attention_computes_its_scores_again() -> None:
    model = describe(layers=2, hidden=64, heads=4, vocab=100)
    forward = forward_flops(model, 256, 128, Pairs.SEEN).attention
    assert backward_flops(model, 256, 128, Pairs.SEEN).attention == 2.5 * forward
    assert backward_flops(model, 256, 128, Pairs.SEEN, flash=0).attention == 2 * forward


@pytest.mark.parametrize(
    ("name", "kib"),
    [
        ("llama-2-7b", 512),
        ("llama-3.1-8b", 128),
        ("llama-3.1-70b", 320),
        ("deepseek-v3", 68.625),
        ("mixtral-8x7b", 128),
    ],
)
def test_caches_per_token_are_the_known_ones(name: str, kib: float) -> None:
    assert cache_bytes(known_model(name), 1) == kib * 1024
    assert cache_bytes(known_model(name), 1, number_bytes=1) == kib * 512


def test_windows_bound_the_cache_and_states_do_not_grow() -> None:
    gemma = known_model("gemma-2-9b")
    per_layer = 8 * 2 * 256 * 2
    assert cache_bytes(gemma, 1000) == 42 * 1000 * per_layer
    assert cache_bytes(gemma, 10_000) == 21 * (10_000 + 4096) * per_layer
    mixed, one = hybrid(), 4 * 2 * 32 * 2
    assert cache_bytes(mixed, 11) - cache_bytes(mixed, 10) == one
    assert cache_bytes(mixed, 0) == 3 * (4 * 256 * 16 + 2 * 4 * (256 + 2 * 2 * 16))


def test_a_state_layer_has_the_parameters_of_mamba_2() -> None:
    made, channels = 2 * 256 + 2 * 2 * 16 + 8, 256 + 2 * 2 * 16
    assert count_parameters(hybrid()).state == 3 * (128 * made + 256 * 128 + 5 * channels + 3 * 8)


def test_tokens_of_a_joint_condition_count_as_tokens() -> None:
    model = known_model("sd3-medium")
    alone = replace(model, joint_layers=0, cross_tokens=0)
    sequence = 4096
    kept, without = (bytes_kept(layer_activations(each, sequence, Practice())) for each in (model, alone))
    assert kept == pytest.approx(without * (1 + 333 / sequence))
    assert attention_pairs(model, sequence, Pairs.SEEN) == 24 * (sequence + 333) ** 2


def test_other_numbers_keep_the_kinds_of_layers_in_proportion() -> None:
    model = known_model("gemma-2-9b")
    half = changed(model, layers=21, head_dim=128)
    assert (half.attention_layers, half.dense_layers, half.window_layers) == (21, 21, 10)
    assert half.value_dim == 128
    assert changed(model) == model
    wider = changed(known_model("llama-3.1-8b"), hidden=8192)
    assert wider.norm_weights == 65 * 8192
