"""Serving engines: their fitted constants per family of GPU, and on which GPUs they were measured."""

import json
from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from redline.errors import UsageError
from redline.planner.serve.serving_rates import Constants

FILE = files("redline.planner.serve") / "serving_constants.json"
# GPUs that an engine treats alike, by the beginning of their records' names.
FAMILIES = {
    "Blackwell": ("B200", "B300", "GB200", "GB300"),
    "Hopper": ("H100", "H200", "H800", "H20", "GH200"),
    "Ampere": ("A100",),
    "CDNA3": ("MI300X", "MI325X", "MI355X"),
    "CDNA2": ("MI250X",),
}


def engine_names() -> tuple[str, ...]:
    return tuple(_loaded())


def family_of(gpu: str) -> str:
    """The family of a record of the catalogue; "" where no engine was measured on it."""
    families = [name for name, starts in FAMILIES.items() if gpu.startswith(starts)]
    return families[0] if families else ""


def constants_of(engine: str, gpu: str) -> Constants:
    """Those of the GPU's family; where the engine was not measured on it, those of the engine over all families."""
    known = _engine(engine)
    return Constants(**known["families"].get(family_of(gpu), known["all"]))


def measured_on(engine: str, gpu: str) -> bool:
    """Whether runs of this engine on this GPU were fitted to, rather than on other GPUs alone."""
    return gpu in _engine(engine)["gpus"]


def is_family_measured(engine: str, gpu: str) -> bool:
    """Whether the engine has constants of the GPU's family."""
    return family_of(gpu) in _engine(engine)["families"]


def constant_columns(engines: Sequence[str], gpus: Sequence[str]) -> Constants:
    """One row per engine and GPU."""
    by_row = [constants_of(engine, gpu) for engine, gpu in zip(engines, gpus, strict=True)]
    return Constants(
        **{f.name: np.array([getattr(constants, f.name) for constants in by_row]) for f in fields(Constants)}
    )


def _engine(name: str) -> Any:
    if name not in _loaded():
        raise UsageError(f"there are no constants for an engine {name!r}; there are: {', '.join(_loaded())}")
    return _loaded()[name]


@cache
def _loaded() -> dict[str, Any]:
    engines: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))["engines"]
    return engines
