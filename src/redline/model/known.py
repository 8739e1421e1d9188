"""Well-known models by name, so that a plan needs no file and no network: their published config.json, in short."""

import difflib
import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from redline.errors import UsageError
from redline.model.huggingface import read_config
from redline.model.model import Model
from redline.storage import path_of

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
