"""A plan of serving a model: what each way to run it gives its users, and which are worth it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import log
from statistics import NormalDist
from typing import TYPE_CHECKING

from redline.plan.accuracy import accuracy_of
from redline.plan.serve.forward_passes import ServingLimit
from redline.plan.serve.setup import is_family_measured, measured_on

if TYPE_CHECKING:
    from redline.hardware.machine import Machine
    from redline.model.model import Model
    from redline.plan.serve.forward_passes import MeasuredEngine


# --- trust ------------------------------------------------------------------------------------------------------------


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
    found = accuracy_of("serving")["figures"][situation].get(engine, {}).get(metric)
    return None if found is None else FigureTrust(**found)


def first_token_repeats() -> Repeats:
    return Repeats(**accuracy_of("serving")["first_token_repeats"])


_REACH = NormalDist().inv_cdf(0.9)
"""Standard deviations from the middle to the end of an 80 % interval."""


@dataclass(frozen=True, kw_only=True)
class Ranged:
    """A predicted figure, and its 80 % interval; none where nothing like it was measured."""

    value: float
    low: float | None = None
    high: float | None = None

    def chance_above(self, limit: float) -> float | None:
        """That the measured figure lies above a limit: log-normal, with half of the interval on either side."""
        if self.low is None or self.high is None:
            return None
        reach = log(self.high / self.value) if limit > self.value else log(self.value / self.low)
        if reach <= 0:
            return float(self.value > limit)
        return 1 - NormalDist(0, reach / _REACH).cdf(log(limit / self.value))


@dataclass(frozen=True, kw_only=True)
class ServingPoint:
    """One way to serve: plain numbers, no columns. Times and rates are of one copy of the model."""

    tp: int
    attention_dp: int
    """Above 1: so many devices of a copy have attention and sequences of their own, and share the experts."""
    dtype: str
    concurrency: int
    """Requests in flight on one copy."""
    batch: float
    """Of these, how many are in a decode step: all, or what memory has room for."""
    most: float
    """Sequences that memory has room for."""
    copies: int
    """That the GPUs hold; 1 where no number of GPUs was given."""
    ttft_s: Ranged
    tpot_s: Ranged
    latency_s: Ranged
    tokens_per_s: Ranged
    """Output tokens of one copy."""
    step_s: tuple[float, ...]
    """One decode step, by `Limit`."""
    prompt_s: tuple[float, ...]
    """The pass over one prompt, by `Limit`."""
    weights_bytes: float
    cache_bytes: float
    """Per device, both."""
    meets: bool
    """The limits of the user."""
    chance_of_missing: float | None = None
    """The limit that is the less sure; None without limits, or where no such figures were measured."""

    @property
    def tokens_per_s_device(self) -> float:
        return self.tokens_per_s.value / self.tp

    @property
    def tokens_per_s_user(self) -> float:
        return 1 / self.tpot_s.value

    @property
    def step_limit(self) -> ServingLimit:
        return ServingLimit(max(ServingLimit, key=lambda limit: self.step_s[limit]))

    @property
    def prompt_limit(self) -> ServingLimit:
        return ServingLimit(max(ServingLimit, key=lambda limit: self.prompt_s[limit]))


@dataclass(frozen=True, kw_only=True)
class ServingEvidence:
    """How well a figure was predicted on runs whose group was left out of the fit, in the situation of a plan."""

    metric: str
    engine: str
    """Whose runs these were; "all" where the engine of the plan has too few."""
    rows: int
    groups: int
    median: float
    p90: float


@dataclass(frozen=True, kw_only=True)
class ServingPlan:
    """All that `redline plan serve` says, whichever way it is shown."""

    model: Model
    parameters: int
    active_parameters: int
    machine: Machine
    device_bytes: float
    engine: str
    measured_here: bool
    """Whether runs of this engine on this GPU are behind its constants, and not those of others alone."""
    situation: ServingSituation | None
    """What is new to the engine; None where its constants are from a measured step."""
    cache_dtype: str
    prompt: int
    output: int
    devices: int | None
    price: float | None
    """Of one device for an hour."""
    most_ttft_s: float | None
    most_tpot_s: float | None
    points: tuple[ServingPoint, ...]
    """All that fit, by tp, format and concurrency."""
    refused: tuple[tuple[int, str, float], ...]
    """tp, format and bytes of weights per device where not even one sequence has room."""
    best: ServingPoint | None
    """With the most tokens per second and device among those that meet the limits."""
    frontier: tuple[ServingPoint, ...]
    """Than which none gives both more per user and more per device; the fastest for a user first."""
    evidence: tuple[ServingEvidence, ...]
    repeats: Repeats | None = None
    """Of the time to the first token; None where it was not measured with the engine."""
    measured: MeasuredEngine | None = None
    """A step of the engine on this machine, from which its constants are."""

    def cost_per_million(self, point: ServingPoint) -> float | None:
        """Output tokens, in the currency of the price."""
        return None if self.price is None else self.price / 3600 / point.tokens_per_s_device * 1e6
