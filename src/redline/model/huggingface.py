"""Reads the config.json of a Hugging Face model into a description of it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from redline.artifacts.file_kind import ANY_NUMBER, FileKind
from redline.errors import InputError
from redline.model.families import decoder, diffusion, encoder, experts, hybrid
from redline.model.fields import Fields
from redline.model.model import Model
from redline.model.parameters import count_parameters
from redline.storage import path_of

FAMILIES: dict[str, Callable[[Fields], Model]] = {
    "bert": encoder.bert,
    "deepseek_v2": experts.deepseek,
    "deepseek_v3": experts.deepseek,
    "ernie4_5_moe": experts.ernie4_5_moe,
    "gemma": decoder.gemma,
    "gemma2": decoder.gemma2,
    "gemma3_text": decoder.gemma3,
    "glm4_moe": experts.glm4_moe,
    "gpt2": decoder.gpt2,
    "gpt_neox": decoder.gpt_neox,
    "gpt_oss": experts.gpt_oss,
    "kimi_k2": experts.deepseek,
    "llama": decoder.llama,
    "llama4_text": experts.llama4,
    "minimax_m2": experts.minimax_m2,
    "mistral": decoder.mistral,
    "mixtral": experts.mixtral,
    "nemotron_h": hybrid.nemotron_h,
    "olmo2": decoder.olmo2,
    "phi3": decoder.mistral,
    "qwen2": decoder.qwen2,
    "qwen2_moe": experts.qwen2_moe,
    "qwen3": decoder.qwen3,
    "qwen3_moe": experts.qwen3_moe,
}
"""By `model_type`, as transformers writes it."""

DIFFUSION: dict[str, Callable[[Fields], Model]] = {
    "DiTTransformer2DModel": diffusion.dit,
    "SD3Transformer2DModel": diffusion.sd3,
    "WanTransformer3DModel": diffusion.wan,
}
"""By `_class_name`, as diffusers writes it."""


CONFIG = FileKind(
    "the config.json of a Hugging Face model",
    dict[str, Any],
    "give it as it was published",
    most_bytes=10_000_000,
    numbers=ANY_NUMBER,  # Infinity stands in published ones; of those that are read, each has its limits
)
_MOST_PARAMETERS = 10**15  # hundreds of times as many as the largest model has


def read_config(source: Path | str | dict[str, Any]) -> Model:
    """From a config.json, a folder that holds one, or its content. Of a model with eyes or ears: its language part."""
    if isinstance(source, dict):
        return _from_values(source, "the config")
    path = path_of(source)
    path = path / "config.json" if path.is_dir() else path
    return _from_values(CONFIG.read(path), str(path))


def _from_values(values: dict[str, Any], where: str) -> Model:
    inner = values.get("text_config")
    if isinstance(inner, dict):
        outer = {name: values[name] for name in ("tie_word_embeddings",) if name in values}
        return _from_values(outer | inner, where)
    family, read = _reader(values, where)
    name = str(values.get("_name_or_path") or family)
    model = replace(read(Fields(where, family, values)), name=name)
    parameters = count_parameters(model).total
    if parameters > _MOST_PARAMETERS:
        raise InputError(
            f"{where}: such a model has {parameters:.1e} parameters, which nobody can plan for. Check its numbers."
        )
    return model


def _reader(values: dict[str, Any], where: str) -> tuple[str, Callable[[Fields], Model]]:
    for field, known in (("model_type", FAMILIES), ("_class_name", DIFFUSION)):
        family = values.get(field)
        if isinstance(family, str) and family in known:
            return family, known[family]
    family = values.get("model_type", values.get("_class_name"))
    named = f"its model_type {family!r:.60} is not known" if family else "it has no 'model_type' (nor '_class_name')"
    known_names = ", ".join([*FAMILIES, *DIFFUSION])
    raise InputError(
        f"{where}: {named}; known are {known_names}.\n"
        "Describe the model by numbers (layers, hidden, ...), or give a function that builds it (path.py:function)."
    )
