"""What a step of a serving engine must do at least, counted by hand."""

import json
from pathlib import Path

import pytest

from redline.errors import UsageError
from redline.model.served_model import served_model

PLAIN = {
    "model_type": "llama",
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 32,
    "tie_word_embeddings": False,
}
LAYER = 8 * 8 + 2 * 8 * 4 + 8 * 8 + 3 * 8 * 16  # queries, keys and values, output, feed-forward
NORMS = 2 * 2 * 8 + 8


def config(folder: Path, **changes: object) -> str:
    (folder / "config.json").write_text(json.dumps({**PLAIN, **changes}), encoding="utf-8")
    return str(folder)


def test_weights_are_read_once_and_tables_are_not(tmp_path: Path) -> None:
    served = served_model(config(tmp_path))
    assert served.weights_read() == 2 * (2 * LAYER + 32 * 8 + NORMS)
    assert served_model(config(tmp_path, tie_word_embeddings=True)).weights_read() == served.weights_read()


def test_the_cache_is_read_for_every_key(tmp_path: Path) -> None:
    assert served_model(config(tmp_path)).cache_read(100) == 100 * 2 * 2 * 4 * 2  # layers, key and value, width, bytes


def test_arithmetic_is_of_new_tokens_last_tokens_and_pairs(tmp_path: Path) -> None:
    served = served_model(config(tmp_path))
    assert served.least_flops(requests=3, queries=5, pairs=7) == 2 * (5 * 2 * LAYER + 3 * 32 * 8 + 7 * 2 * 2 * (4 + 4))


def test_layers_with_a_window_are_left_out_of_attention(tmp_path: Path) -> None:
    windowed = config(tmp_path, model_type="mistral", sliding_window=4)
    served = served_model(windowed)
    assert served.cache_read(100) == 0
    assert served.least_flops(requests=1, queries=1, pairs=9) == served.least_flops(requests=1, queries=1, pairs=0)


@pytest.mark.parametrize(
    ("changes", "dtype", "weight_bytes"),
    [
        ({}, "bf16", 2),
        ({"torch_dtype": "float32"}, "fp32", 4),
        ({"dtype": "float16"}, "fp16", 2),
        ({"dtype": "bfloat16", "quantization_config": {"quant_method": "mxfp4"}}, "fp8", 0.5),
    ],
)
def test_numbers_are_as_the_models_file_says(
    changes: dict[str, object], dtype: str, weight_bytes: float, tmp_path: Path
) -> None:
    served = served_model(config(tmp_path, **changes))
    assert (served.dtype, served.weight_bytes) == (dtype, weight_bytes)


def test_a_known_model_by_name() -> None:
    served = served_model("Qwen/Qwen3-8B")
    assert served.weights_read() / 1e9 == pytest.approx(15.14, abs=0.01)  # 8.19 e9 numbers less a table of 0.62 e9
    assert served.cache_read(32785) / 1e9 == pytest.approx(4.83, abs=0.01)


def test_an_unknown_model_is_answered_with_names_near_it() -> None:
    with pytest.raises(UsageError, match="no model is known as 'qwen9'"):
        served_model("qwen9")
