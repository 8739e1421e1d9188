"""How far figures of serving can be trusted: intervals, and errors of such predictions on runs left out of a fit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

from redline.planner.serve.engines import is_family_measured, measured_on

FILE = files("redline.planner.serve") / "serving_trust.json"
EVERY = "all"
# Fewer groups left out do not say how far such predictions lie: then those of all engines do.
LEAST_GROUPS = 3


class ServingSituation(StrEnum):
    """What an engine was never measured with. How far its figures can be trusted is known from runs predicted so."""

    MODEL = "model"
    """At most the model, or how it is served: the engine was measured on this GPU."""
    GPU = "gpu"
    """The GPU; others of its family were measured."""
    FAMILY = "family"
    """Any GPU of the family: constants are those of the engine over all others."""


@dataclass(frozen=True, kw_only=True)
class FigureTrust:
    """Of one figure of an engine."""

    low: float
    high: float
    """80 % of measured figures lie between these multiples of the predicted one."""
    engine: str
    """Whose runs the errors are of; "all" where the engine has too few groups of its own."""
    rows: int
    groups: int
    """Models, GPUs or families that were left out one by one."""
    median: float
    p90: float
    """Of absolute errors."""


@dataclass(frozen=True, kw_only=True)
class Repeats:
    """What a run of a server says of another with the same prompts and as many requests in flight."""

    groups: int
    rows: int
    spread: float
    """The largest over the smallest, less 1, in the median."""
    median: float
    p90: float
    """Of absolute errors, where one run stands in for another."""
    predicted_median: float
    """Of predictions of the same rows, with their models left out of the fit."""
    predicted_p90: float


def situation_of(engine: str, gpu: str) -> ServingSituation:
    if measured_on(engine, gpu):
        return ServingSituation.MODEL
    return ServingSituation.GPU if is_family_measured(engine, gpu) else ServingSituation.FAMILY


def trust_of(engine: str, situation: ServingSituation, metric: str) -> FigureTrust | None:
    """None where this figure of the engine was never measured, or too little like it."""
    found = _file()["figures"][situation].get(engine, {}).get(metric)
    return None if found is None else FigureTrust(**found)


def first_token_repeats() -> Repeats:
    return Repeats(**_file()["first_token_repeats"])


@cache
def _file() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return loaded
