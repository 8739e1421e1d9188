"""What a step of a serving engine must do at least: arithmetic, and bytes of weights and cache that it reads."""

from dataclasses import dataclass
from typing import Any

from redline.model.flops import Pairs, forward_flops
from redline.model.huggingface import CONFIG, known_config, read_model
from redline.model.model import Model
from redline.model.parameters import active_parameters, numbers_per_token
from redline.storage import path_of

CACHE_NUMBER_BYTES = 2  # an engine may keep 8 bits: its cache is not in the model's file
_QUANTISED_BYTES = 0.5  # of a weight: the fewest that are usual
_SHORT_NAMES = {"float32": ("fp32", 4.0), "float16": ("fp16", 2.0), "bfloat16": ("bf16", 2.0)}
_USUAL = ("bf16", 2.0)


@dataclass(frozen=True, kw_only=True)
class ServedModel:
    """A decoder on one device, and in which numbers it computes."""

    model: Model
    dtype: str  # of the arithmetic
    weight_bytes: float  # of a number in a weight

    def least_flops(self, *, requests: int, queries: int, pairs: float) -> float:
        """For so many new tokens that see so many keys; logits are of the last token of a request.

        Layers with a window see fewer pairs, and are left out.
        """
        model = self.model
        layers = float(forward_flops(model, queries, 1, Pairs.SEEN).layers)
        head = float(forward_flops(model, requests, 1, Pairs.SEEN).head)
        per_pair = 2 * model.heads * (model.head_dim + model.value_dim)
        return layers + head + float(per_pair * _whole_layers(model)) * pairs

    def weights_read(self) -> float:
        """Bytes: all weights but tables that are looked up, and of experts as many as one token meets."""
        model = self.model
        looked_up = model.vocab * model.hidden * (1 - model.tied) + model.positions * model.hidden
        return float(active_parameters(model) - looked_up) * self.weight_bytes

    def cache_read(self, keys: int) -> float:
        """Bytes of keys and values before the new tokens, in layers without a window."""
        return float(numbers_per_token(self.model) * _whole_layers(self.model)) * CACHE_NUMBER_BYTES * keys


def _whole_layers(model: Model) -> float:
    """Layers of attention that see everything before a token."""
    return float(model.attention_layers - model.window_layers)


def served_model(source: str) -> ServedModel:
    """A known name, a config.json, or a folder that holds one."""
    model = read_model(source)
    values = _config(source)
    if values.get("quantization_config"):
        return ServedModel(model=model, dtype="fp8", weight_bytes=_QUANTISED_BYTES)
    saved_as = str(values.get("dtype", values.get("torch_dtype", ""))).removeprefix("torch.")
    dtype, weight_bytes = _SHORT_NAMES.get(saved_as, _USUAL)
    return ServedModel(model=model, dtype=dtype, weight_bytes=weight_bytes)


def _config(source: str) -> dict[str, Any]:
    path = path_of(source)
    if path.suffix == ".json" or path.exists():
        values = CONFIG.read(path / "config.json" if path.is_dir() else path)
    else:
        values = known_config(source.rpartition("/")[2].lower())
    inner = values.get("text_config")
    return {**values, **inner} if isinstance(inner, dict) else values
