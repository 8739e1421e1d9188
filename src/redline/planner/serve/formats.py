"""Number formats of served models: bytes per weight by what it belongs to, with the scales that quantisation adds."""

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from redline.errors import UsageError
from redline.model.model import Number
from redline.planner.serve.numbers_or_columns import column

# Scales: fp8 has one of 4 bytes per tile of 128 x 128, nvfp4 one byte per 16 numbers, mxfp4 one per 32, int4 of groups
# of 32 two of 2 bytes each (scale and zero), or one where it is symmetric.
_FP8, _NVFP4, _MXFP4 = 1 + 4 / 128**2, 0.5 + 1 / 16, 0.5 + 1 / 32
_INT4, _INT4_SYMMETRIC = 0.5 + 4 / 32, 0.5 + 2 / 32


@dataclass(frozen=True, kw_only=True)
class Format:
    """Bytes per number. Numbers, or columns of numbers: one row per deployment."""

    name: str = field(default="", compare=False)
    expert_bytes: Number
    layer_bytes: Number
    """Of all other matrices in layers."""
    head_bytes: Number
    """Of the matrix that makes logits, and of embeddings."""
    cache_bytes: Number
    compute: Number
    """Which peak prompts are limited by: the bytes per number of its format (2: bf16, 1: fp8, 0.5: fp4)."""


FORMATS = {
    "bf16": Format(expert_bytes=2, layer_bytes=2, head_bytes=2, cache_bytes=2, compute=2),
    "fp8": Format(expert_bytes=_FP8, layer_bytes=_FP8, head_bytes=2, cache_bytes=2, compute=1),
    "nvfp4": Format(expert_bytes=_NVFP4, layer_bytes=_NVFP4, head_bytes=2, cache_bytes=2, compute=0.5),
    # Published checkpoints of mixtures of experts quantise the experts alone.
    "mxfp4": Format(expert_bytes=_MXFP4, layer_bytes=2, head_bytes=2, cache_bytes=2, compute=2),
    "int8": Format(expert_bytes=1, layer_bytes=1, head_bytes=1, cache_bytes=2, compute=2),
    "int4": Format(expert_bytes=_INT4, layer_bytes=_INT4, head_bytes=_INT4, cache_bytes=2, compute=2),
    "int4-experts": Format(expert_bytes=_INT4_SYMMETRIC, layer_bytes=2, head_bytes=2, cache_bytes=2, compute=2),
    "nvfp4-experts": Format(expert_bytes=_NVFP4, layer_bytes=2, head_bytes=2, cache_bytes=2, compute=0.5),
}
CACHE_BYTES = {"bf16": 2.0, "fp8": 1.0}


def format_named(name: str, cache: str = "bf16") -> Format:
    if name not in FORMATS:
        raise UsageError(f"there is no number format {name!r} to serve in; there are: {', '.join(FORMATS)}")
    if cache not in CACHE_BYTES:
        raise UsageError(f"there is no number format {cache!r} for the cache; there are: {', '.join(CACHE_BYTES)}")
    return replace(FORMATS[name], name=name, cache_bytes=CACHE_BYTES[cache])


def stacked(formats: list[Format]) -> Format:
    """Formats as one, in columns: row i is that of format i."""
    names = [f.name for f in fields(Format) if f.name != "name"]
    columns: dict[str, Any] = {name: np.concatenate([column(getattr(f, name)) for f in formats]) for name in names}
    return Format(**columns)
