"""Reads the config.json of a Hugging Face model into a description of it."""

import difflib
import json
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from redline.artifacts.file_kind import ANY_NUMBER, FileKind
from redline.errors import InputError, UsageError
from redline.model.families import decoder, diffusion, experts
from redline.model.fields import Fields
from redline.model.model import Model, Number
from redline.model.parameters import count_parameters
from redline.storage import path_of

FAMILIES: dict[str, Callable[[Fields], Model]] = {
    "bert": decoder.bert,
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
    "nemotron_h": decoder.nemotron_h,
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


SAME_SHAPE = {
    "deepseek-r1": "deepseek-v3",
    "deepseek-v3.1": "deepseek-v3",
    "llama-3-8b": "llama-3.1-8b",
    "llama-3-70b": "llama-3.1-70b",
    "llama-3.3-70b": "llama-3.1-70b",
}
"""Models of the same widths and depths as another: they cost the same."""


def known_models() -> tuple[str, ...]:
    """All names, in order."""
    stored = (Path(entry.name) for entry in files("redline.model.known_configs").iterdir())
    return tuple(sorted([*SAME_SHAPE, *(entry.stem for entry in stored if entry.suffix == ".json")]))


def known_model(name: str) -> Model:
    """By name; capitals, and an owner before a slash, do not matter."""
    plain = name.rpartition("/")[2].lower()
    if plain not in known_models():
        raise _unknown(name, plain)
    return replace(read_config(known_config(plain)), name=plain)


def known_config(name: str) -> dict[str, Any]:
    """The fields of its config.json that its cost depends on, with their source."""
    stored = files("redline.model.known_configs") / f"{SAME_SHAPE.get(name, name)}.json"
    values: dict[str, Any] = json.loads(stored.read_text(encoding="utf-8"))
    return values


def read_model(source: str) -> Model:
    """A known name, a config.json, or a folder that holds one."""
    path = path_of(source)
    if path.suffix == ".json" or path.exists():
        return read_config(path)
    return known_model(source)


def _unknown(name: str, plain: str) -> UsageError:
    known = known_models()
    nearest = ", ".join(difflib.get_close_matches(plain, known, n=3, cutoff=0.0))
    return UsageError(
        f"no model is known as {name!r}, and no such file is there; the nearest of {len(known)} names: {nearest}.\n"
        "All of them: docs/reference/models.md. "
        "Give a known name, a config.json, numbers (layers, hidden, ...), or what builds it (path.py:function)."
    )


def describe(*, layers: Number, hidden: Number, heads: Number, vocab: Number, gated: Number = 1, **given: Any) -> Model:
    """A decoder. Further fields of `Model` may be given, as numbers or columns; what is not given follows:

    heads of hidden / heads numbers, as many for keys as for queries; a feed-forward part of 4 x hidden, or 8/3 x hidden
    where it is gated; attention in all layers that have no state-space mixer; feed-forward parts in all layers, dense
    where they are not a mixture of experts; two norms of one number per hidden unit in a layer, and one at the end;
    learned biases nowhere.
    """
    head_dim = given.get("head_dim", hidden / heads)
    attending = layers - given.get("state_layers", 0)
    usual = {
        "kv_heads": heads,
        "head_dim": head_dim,
        "value_dim": head_dim,
        "ffn": hidden * (4 - gated * 4 / 3),
        "tied": 0,
        "attention_layers": attending,
        "dense_layers": layers - given.get("moe_layers", 0),
        "norm_weights": (2 * layers + 1) * hidden,
    }
    fields = usual | given
    return Model(layers=layers, hidden=hidden, heads=heads, vocab=vocab, gated=gated, **fields)


# What grows with the number of layers.
_COUNTED = ("attention_layers", "dense_layers", "moe_layers", "state_layers", "window_layers", "joint_layers")


def changed(model: Model, **given: Any) -> Model:
    """The model with other numbers in some fields. Other layers are of the same kinds, in the same proportion."""
    share = given.get("layers", model.layers) / model.layers
    scaled = {name: round(getattr(model, name) * share) for name in _COUNTED}
    norms = round(model.norm_weights * share * given.get("hidden", model.hidden) / model.hidden)
    if "head_dim" in given and model.value_dim == model.head_dim:
        given.setdefault("value_dim", given["head_dim"])
    return replace(model, **{**scaled, "norm_weights": norms, **given})
