"""How far jobs of a software stack lie from its constants, and how far plans can be trusted that start from a step.

All of it is in `measured_trust.json`, from published jobs of several layouts: one row stands for the measured step, and
the others are predicted from it. Their models were left out of the constants. `scripts/score_measured.py` writes it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

EVERY = "all"


@dataclass(frozen=True, kw_only=True)
class JobSpread:
    """Deviations of the logarithm of measured over predicted steps, with the stack's own constants."""

    job: float
    """Of one job from others of the stack."""
    layout: float
    """Of one layout of a job from others of it."""


@dataclass(frozen=True, kw_only=True)
class AnchoredAccuracy:
    """How well other layouts of a job were predicted from one measured step."""

    stack: str
    """Whose jobs these are; "all" where the stack has too few."""
    jobs: int
    pairs: int
    """A measured layout and a predicted one."""
    median: float
    """Of absolute errors, as are the next two; every predicted run counts the same."""
    p90: float
    median_without: float
    """Predicted from the constants alone."""
    p90_without: float
    low: float
    """Eight of ten measured steps lie between these two multiples of the predicted one."""
    high: float


def job_spread(stack: str) -> JobSpread:
    """Of all stacks where one has too few jobs."""
    spreads: Mapping[str, Mapping[str, float]] = trust_file()["spreads"]
    own = spreads.get(stack, spreads[EVERY])
    return JobSpread(job=own["job"], layout=own["layout"])


def anchored_accuracy(stack: str) -> AnchoredAccuracy:
    """Of a stack. Of unknown software it is that of stacks whose constants were not used. The interval is no narrower
    than that of all stacks, as half of one stack's jobs are few.
    """
    scored: Mapping[str, Mapping[str, Any]] = trust_file()["scored"]
    name = stack if stack in scored else EVERY
    own, every = scored[name], scored[EVERY]
    widest = {"low": min(own["low"], every["low"]), "high": max(own["high"], every["high"])}
    return AnchoredAccuracy(stack=name, **{**own, **widest})


@cache
def trust_file() -> MappingProxyType[str, Any]:
    """The file, as it is."""
    text = files("redline.planner.train.measured").joinpath("measured_trust.json").read_text(encoding="utf-8")
    return MappingProxyType(json.loads(text))
