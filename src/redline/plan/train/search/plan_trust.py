"""How far a predicted step can be trusted: its interval, and how such predictions fared on runs left out of the fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import exp, expm1, hypot, log
from typing import TYPE_CHECKING, Any

from redline.hardware.machine import LAW_COMPUTE, LAW_MEMORY
from redline.plan.accuracy import accuracy_of
from redline.plan.train.stacks import format_kind

if TYPE_CHECKING:
    from redline.hardware.machine import Machine
    from redline.model.model import Model


@dataclass(frozen=True, kw_only=True)
class MeasuredAccuracy:
    """How well the same model of the same software stack predicted measured runs that it was not fitted to."""

    what: str
    """step or memory"""
    stack: str
    """Whose rows these are; "all" where the stack has none of its own."""
    situation: str
    """What was left out of the fit with each of these runs: one of Situation."""
    rows: int
    groups: int
    """That were left out, one after the other."""
    median: float
    """Of the absolute errors, as a share."""
    p90: float


# --- situations -------------------------------------------------------------------------------------------------------


class Situation(StrEnum):
    """What is new about a job. How far its plan can be trusted is known from runs that were predicted so."""

    LAYOUT = "layout"
    """At most its layout: runs of the model, on as many of these GPUs, with this software, were fitted to."""
    MODEL = "model"
    GPUS = "gpus"
    """Its number of GPUs."""
    GPU = "gpu"
    """Its GPU, or number format on it, for this software; other software was measured there."""
    GPU_ANYWHERE = "gpu anywhere"
    STACK = "stack"
    SOURCE = "source"
    """Who measured. Nothing is planned so; runs are scored so."""


@dataclass(frozen=True, kw_only=True)
class PlannedJob:
    """Where and how a job is to run, whatever it trains."""

    stack: str
    machine: Machine
    dtype: str
    devices: int
    adapters: bool = False
    model: Model | None = None
    """None of a module of a user's own."""

    @property
    def chip(self) -> str:
        return chip_of(self.machine.base or self.machine.name)

    @property
    def unusual(self) -> bool:
        """Mixtures of experts and adapters scatter more."""
        return self.adapters or (self.model is not None and bool(self.model.moe_layers))


MeasuredRuns = Mapping[str, Sequence[str | int]]
"""Runs of one stack on one type of GPU that were fitted to: their formats, models and numbers of devices."""


def situations(job: PlannedJob, measured: Mapping[str, Mapping[str, MeasuredRuns]]) -> Iterator[Situation]:
    """All that is new; `measured` by stack and GPU."""
    nowhere = all(job.chip not in chips for chips in measured.values())
    own = measured.get(job.stack)
    if own is None:
        yield Situation.STACK
        if nowhere:
            yield Situation.GPU_ANYWHERE
        return
    here = own.get(job.chip)
    if here is None or format_kind(job.dtype) not in here["formats"]:
        yield Situation.GPU_ANYWHERE if nowhere else Situation.GPU
        known = tuple(own.values())
    else:
        known = (here,)
    if all(shape_of(job.model) not in each["models"] for each in known):
        yield Situation.MODEL
    if all(job.devices not in each["devices"] for each in known):
        yield Situation.GPUS


def chip_of(record: str) -> str:
    """A record without its memory and board: an A100 of 40 GB computes as one of 80 GB does."""
    return record.partition("-")[0]


def shape_of(model: Model | None) -> str:
    """The widths by which a model is known: names differ between sources."""
    return "" if model is None else "/".join(f"{float(getattr(model, name)):.0f}" for name in SHAPE)


SHAPE = ("layers", "hidden", "ffn", "experts")


EVERY = "all"
# By stack, type of GPU and kind of model.
CellIntervals = Mapping[str, Mapping[str, float]]
# Fewer groups left out do not say how far such predictions lie: then those of all software do.
LEAST_GROUPS = 3
# Of a profile: beyond this share of its value, a figure makes the plan a guess.
NOISY = 0.25
# How far a prediction of a kind that nobody has measured is trusted, as a factor.
GUESSED = 2.0


@dataclass(frozen=True, kw_only=True)
class Trust:
    """How far the step time of a plan can be trusted."""

    situations: tuple[Situation, ...]
    """What no measured run has in common with the plan; the one that errors are quoted of first."""
    low: float
    high: float
    """The 80 % interval of the step time, as multiples of the predicted one."""
    runs: int
    """On which the interval rests, of the same software and GPU; 0 where it is borrowed from others."""
    users: int
    """Other people's runs, to which nothing was fitted; the interval is at least as wide as theirs."""
    profile_error: float
    """How far the profile's own figures are off, as a share; 0 where the machine is from the catalogue."""


def trust_of(job: PlannedJob) -> Trust:
    """At least as wide as the interval of other people's runs: whose steps a plan predicts is never known."""
    if not is_gpu(job.machine):
        return guess(job)
    new = what_is_new(job, _measured())
    low, high, runs = situation_ends(job, new, accuracy_of("training")["intervals"])
    users = accuracy_of("training")["users"][kind_of(job)]
    low, high = min(low, log(users["low"])), max(high, log(users["high"]))
    off = profile_error(job.machine, job.dtype)
    if off:
        low, high = _together(((low, high), (-log(1 + off), log(1 + off))))
    worst = sorted(new, key=lambda situation: -_errors(situation, job.stack)["p90"])
    return Trust(
        situations=tuple(worst),
        low=exp(low),
        high=exp(high),
        runs=runs,
        users=int(users["runs"]),
        profile_error=off,
    )


def what_is_new(job: PlannedJob, measured: Mapping[str, Mapping[str, MeasuredRuns]]) -> tuple[Situation, ...]:
    """At least the layout."""
    return tuple(situations(job, measured)) or (Situation.LAYOUT,)


def situation_ends(
    job: PlannedJob, new: Sequence[Situation], known: Mapping[str, CellIntervals]
) -> tuple[float, float, int]:
    """Logarithms of the interval of runs that were left out with what is new, and how many of them are like this."""
    found = [_interval(job, known[situation]) for situation in new]
    low, high = _together([(log(each["low"]), log(each["high"])) for each in found])
    return low, high, min(int(each["runs"]) for each in found)


def _together(ends: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """What is new adds up, as errors do that have nothing to do with each other."""
    if len(ends) == 1:
        return ends[0]
    return -hypot(*(min(low, 0.0) for low, _ in ends)), hypot(*(max(high, 0.0) for _, high in ends))


def kind_of(job: PlannedJob) -> str:
    """The key by which intervals are kept."""
    return "unusual" if job.unusual else "usual"


def guess(job: PlannedJob) -> Trust:
    """The interval of what was never held against measured runs."""
    off = log(1 + profile_error(job.machine, job.dtype))
    reach = exp(hypot(log(GUESSED), off))
    return Trust(situations=(), low=1 / reach, high=reach, runs=0, users=0, profile_error=expm1(off))


def evidence(job: PlannedJob) -> tuple[MeasuredAccuracy, ...]:
    """Accuracy of step time, in the situation of the plan, and of memory: runs of the stack itself, or of all."""
    if not is_gpu(job.machine):
        return ()
    situation = trust_of(job).situations[0]
    errors = _errors(situation, job.stack)
    return _accuracy("step", situation, errors), _of_memory(job.stack)


def _accuracy(what: str, situation: Situation, errors: Mapping[str, Any]) -> MeasuredAccuracy:
    return MeasuredAccuracy(
        what=what,
        situation=situation,
        stack=errors["stack"],
        rows=int(errors["rows"]),
        groups=int(errors.get("groups", 1)),
        median=errors["median"],
        p90=errors["p90"],
    )


def profile_error(machine: Machine, dtype: str) -> float:
    """The largest error of the figures that a profile has of matmuls in this format."""
    figures = (machine.figures.get(f"{name}.{dtype}") for name in (LAW_COMPUTE, LAW_MEMORY))
    return max((figure.spread or 0.0 for figure in figures if figure is not None), default=0.0)


def is_gpu(machine: Machine) -> bool:
    """Tell whether runs on GPUs say anything about it. The catalogue has no CPUs, profiles of them say so."""
    return machine.architecture != "cpu"


def is_measured(job: PlannedJob) -> bool:
    """Tell whether any software was measured on its GPU."""
    return any(job.chip in chips for chips in _measured().values())


def _interval(job: PlannedJob, known: CellIntervals) -> Mapping[str, float]:
    """The interval of the cell of the run, or of the nearest that has one."""
    stacks, chips = (job.stack, EVERY), (job.chip, EVERY)
    names = (f"{stack}/{chip}/{kind_of(job)}" for stack in stacks for chip in chips)
    return next(known[name] for name in (*names, f"{EVERY}/{EVERY}/usual") if name in known)


def _errors(situation: Situation, stack: str) -> dict[str, Any]:
    """Errors of the stack's own runs where enough groups were left out, else of all stacks."""
    known = accuracy_of("training")["errors"][situation]
    own = known.get(stack)
    name = stack if own is not None and own["groups"] >= LEAST_GROUPS else EVERY
    return {"stack": name, **known[name]}


def _of_memory(stack: str) -> MeasuredAccuracy:
    known = accuracy_of("training")["memory"]
    name = stack if stack in known else EVERY
    situation = Situation.LAYOUT if name == stack else Situation.STACK
    return _accuracy("memory", situation, {"stack": name, **known[name]})


def _measured() -> Mapping[str, Mapping[str, MeasuredRuns]]:
    """By stack and GPU."""
    measured: Mapping[str, Mapping[str, MeasuredRuns]] = accuracy_of("training")["measured"]
    return measured
