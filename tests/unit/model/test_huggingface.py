"""Fields of a config.json that are read, and what is said where one is missing or makes no sense."""

import json
from pathlib import Path
from typing import Any

import pytest

from redline.errors import InputError, UsageError
from redline.model.huggingface import known_config, known_model, known_models, read_config, read_model
from redline.model.parameters import count_parameters
from tests.support.small_configs import DIFFUSION, SMALL

LLAMA = SMALL["llama"]


def error(values: dict[str, Any]) -> str:
    with pytest.raises(InputError) as raised:
        read_config(values)
    text = str(raised.value)
    assert len(text.splitlines()) <= 2
    return text


def test_a_file_a_folder_and_its_content_give_the_same(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    assert read_config(path) == read_config(tmp_path) == read_config(LLAMA) == read_model(str(path))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hidden_size": None}, "a model of type 'llama' needs the field 'hidden_size'.\nAdd it"),
        ({"hidden_size": -48}, "'hidden_size' is -48, but a whole number from 1 to 20,000,000 belongs there."),
        ({"hidden_size": 4.5}, "'hidden_size' is 4.5, but a whole number"),
        ({"num_hidden_layers": "three"}, "'num_hidden_layers' is 'three', but a whole number"),
        ({"num_hidden_layers": True}, "'num_hidden_layers' is True, but a whole number"),
        ({"tie_word_embeddings": "yes"}, "'tie_word_embeddings' is 'yes', but only true or false make sense there."),
        ({"num_attention_heads": 5}, "5 heads do not divide a hidden width of 48.\nAdd 'head_dim'"),
        (
            {"model_type": "mistral", "sliding_window": 4, "layer_types": 3},
            "'layer_types' is 3, but a list of at most 10,000 belongs there.",
        ),
        ({"model_type": "mamba"}, "its model_type 'mamba' is not known; known are bert, "),
        ({"model_type": None}, "it has no 'model_type' (nor '_class_name'); known are bert, "),
    ],
)
def test_what_is_wrong_is_said_with_its_field(change: dict[str, Any], said: str) -> None:
    assert said in error(LLAMA | change)


def test_a_hybrid_without_its_pattern_is_told_to_add_it() -> None:
    text = error(SMALL["nemotron_h"] | {"hybrid_override_pattern": None})
    assert "needs the field 'hybrid_override_pattern'" in text
    names = ["mamba", "mlp", "linear_attention", "moe", "full_attention"]
    named = SMALL["nemotron_h"] | {"hybrid_override_pattern": None, "layers_block_type": names}
    assert read_config(named) == read_config(SMALL["nemotron_h"])


def test_an_unknown_type_points_to_numbers_and_modules() -> None:
    text = error({"model_type": "mamba"})
    assert "by numbers (layers, hidden, ...), or give a function that builds it (path.py:function)." in text


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            DIFFUSION["dit"] | {"_class_name": "SD3Transformer2DModel", "dual_attention_layers": [0]},
            "dual_attention_layers",
        ),
        (DIFFUSION["dit"] | {"_class_name": "WanTransformer3DModel", "image_dim": 1280}, "a condition of images"),
        (SMALL["ernie4_5_moe"] | {"use_bias": True}, "biases in every matrix"),
        (SMALL["nemotron_h"] | {"moe_latent_size": 16}, "experts of a latent width"),
        (SMALL["nemotron_h"] | {"hybrid_override_pattern": "MX"}, "a layer of kind 'X'"),
    ],
)
def test_what_numbers_cannot_describe_is_refused(values: dict[str, Any], said: str) -> None:
    text = error(values)
    assert said in text
    assert (
        "cannot be described by numbers alone.\nGive the model as a function that builds it (path.py:function)." in text
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is damaged, or not the config.json of a Hugging Face model: Expecting property name"),
        ("[1]", "not the config.json of a Hugging Face model: Expected `object`"),
        ("[" * 100_000, "it nests too deep; give it as it was published"),
    ],
)
def test_a_file_that_is_no_config_is_said_to_be_none(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(InputError, match=str(path)) as raised:
        read_config(path)
    assert said in str(raised.value)


def test_bytes_that_are_no_text_and_files_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"is damaged, or not the config\.json"):
        read_config(tmp_path)
    with pytest.raises(InputError, match=r"cannot read .* as the config\.json of .*: No such file or directory"):
        read_config(tmp_path / "none.json")


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="/dev/zero is a device; give the name of an ordinary file"):
        read_config("/dev/zero")
    (tmp_path / "config.json").write_bytes(b" " * 10_000_001)
    with pytest.raises(InputError, match=r"is above 10 MB, so it is not the config\.json of a Hugging Face model"):
        read_config(tmp_path)


HUGE = [2**31, 2**63, 1e300, -1, -(2**63), float("nan"), float("inf"), "x" * 1_000_000, [1] * 1_000_000, {}, True]


@pytest.mark.parametrize("family", ["llama", "gemma2", "gemma3_text", "deepseek_v3", "nemotron_h", "gpt2", "bert"])
def test_no_number_is_too_large_to_be_refused_in_a_line(family: str) -> None:
    for name, value in SMALL[family].items():
        for huge in HUGE if isinstance(value, int | float) and not isinstance(value, bool) else ():
            try:
                total = count_parameters(read_config({**SMALL[family], name: huge})).total
            except InputError as error:
                said = str(error)
                assert name in said or "parameters" in said or "heads do not divide" in said, (name, huge)
                assert len(said) < 400
            else:
                assert total < 10**15, (name, huge)


def test_a_model_that_nobody_can_plan_for_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        read_config({**SMALL["llama"], "hidden_size": 10**7, "intermediate_size": 10**7, "num_hidden_layers": 1000})
    assert "parameters, which nobody can plan for. Check its numbers." in str(caught.value)


def test_the_language_part_of_a_model_with_eyes_is_read() -> None:
    seeing = {"model_type": "gemma3", "tie_word_embeddings": True, "text_config": SMALL["gemma3_text"]}
    assert count_parameters(read_config(seeing)).total == count_parameters(read_config(SMALL["gemma3_text"])).total


@pytest.mark.parametrize(
    ("name", "window", "layers"),
    [
        ("mistral-7b", 4096, 32),
        ("gemma-2-9b", 4096, 21),
        ("gemma-3-27b", 1024, 52),
        ("gpt-oss-20b", 128, 12),
        ("llama-4-scout", 8192, 36),
        ("llama-3.1-8b", 0, 0),
    ],
)
def test_windows_are_counted_by_layer(name: str, window: int, layers: int) -> None:
    model = known_model(name)
    assert (model.window, model.window_layers) == (window, layers)


def test_listed_kinds_of_layers_come_before_what_is_usual() -> None:
    kinds = ["full_attention", "sliding_attention", "full_attention"]
    assert read_config(SMALL["gemma2"] | {"layer_types": kinds}).window_layers == 1
    assert read_config(SMALL["qwen3"]).window_layers == 2


def test_known_models_have_names_and_sources() -> None:
    for name in known_models():
        assert known_model(name).name == name
        assert str(known_config(name)["_source"]).startswith("published config.json of ")


def test_capitals_and_owners_do_not_matter() -> None:
    assert known_model("meta-llama/Llama-3.1-8B") == read_model("llama-3.1-8b")
    assert known_model("llama-3.3-70b").layers == 80


def test_an_unknown_name_is_answered_with_the_nearest_ones() -> None:
    with pytest.raises(UsageError) as raised:
        read_model("llama-3.1-9b")
    assert "no model is known as 'llama-3.1-9b'" in str(raised.value)
    assert "the nearest of 64 names: llama-3.1-8b, llama-3.1-70b, " in str(raised.value)


def test_a_name_like_no_other_is_answered_with_three_and_where_all_are() -> None:
    with pytest.raises(UsageError, match=r"All of them: docs/reference/models\.md") as raised:
        read_model("nonsense")
    assert str(raised.value).count(",") < 10
