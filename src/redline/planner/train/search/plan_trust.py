"""How far a predicted step can be trusted: its interval, and how such predictions fared on runs left out of the fit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import exp, expm1, hypot, log
from typing import TYPE_CHECKING, Any

from redline.hardware.machine import LAW_COMPUTE, LAW_MEMORY
from redline.planner.train.search.situations import MeasuredRuns, PlannedJob, PlannedRun, Situation, situations
from redline.planner.train.search.training_plan import MeasuredAccuracy

if TYPE_CHECKING:
    from redline.hardware.machine import Machine

EVERY = "all"
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
    profile_error: float
    """How far the profile's own figures are off, as a share; 0 where the machine is from the catalogue."""


def trust_of(run: PlannedRun) -> Trust:
    """What is new about a plan adds up, as errors do that have nothing to do with each other."""
    if not is_gpu(run.job.machine):
        return guess(run.job)
    new = tuple(situations(run, _measured())) or (Situation.LAYOUT,)
    found = [_interval(run, situation) for situation in new]
    off = profile_error(run.job.machine, run.job.dtype)
    low = -hypot(*(min(log(each["low"]), 0.0) for each in found), log(1 + off))
    high = hypot(*(max(log(each["high"]), 0.0) for each in found), log(1 + off))
    if len(found) == 1 and not off:
        low, high = log(found[0]["low"]), log(found[0]["high"])
    worst = sorted(new, key=lambda situation: -_errors(situation, run.job.stack)["p90"])
    return Trust(
        situations=tuple(worst),
        low=exp(low),
        high=exp(high),
        runs=min(int(each["runs"]) for each in found),
        profile_error=off,
    )


def guess(job: PlannedJob) -> Trust:
    """Of what was never held against measured runs."""
    off = log(1 + profile_error(job.machine, job.dtype))
    reach = exp(hypot(log(GUESSED), off))
    return Trust(situations=(), low=1 / reach, high=reach, runs=0, profile_error=expm1(off))


def evidence(run: PlannedRun) -> tuple[MeasuredAccuracy, ...]:
    """Of step time, in the situation of the plan, and of memory: runs of the stack itself, or of all."""
    if not is_gpu(run.job.machine):
        return ()
    situation = trust_of(run).situations[0]
    errors = _errors(situation, run.job.stack)
    step = MeasuredAccuracy(
        what="step",
        stack=errors["stack"],
        situation=situation,
        rows=int(errors["rows"]),
        groups=int(errors["groups"]),
        median=errors["median"],
        p90=errors["p90"],
    )
    return step, _of_memory(run.job.stack)


def profile_error(machine: Machine, dtype: str) -> float:
    """The largest error of the figures that a profile has of matmuls in this format."""
    figures = (machine.figures.get(f"{name}.{dtype}") for name in (LAW_COMPUTE, LAW_MEMORY))
    return max((figure.spread or 0.0 for figure in figures if figure is not None), default=0.0)


def is_gpu(machine: Machine) -> bool:
    """Whether runs on GPUs say anything about it. The catalogue has no CPUs, profiles of them say so."""
    return machine.architecture != "cpu"


def is_measured(job: PlannedJob) -> bool:
    """Whether any software was measured on its GPU."""
    return any(job.chip in chips for chips in _measured().values())


def _interval(run: PlannedRun, situation: Situation) -> dict[str, float]:
    """Of the cell of the run, or of the nearest that has one."""
    known: dict[str, dict[str, float]] = _file()["intervals"][situation]
    kind = "unusual" if run.unusual else "usual"
    stacks, chips = (run.job.stack, EVERY), (run.job.chip, EVERY)
    names = (f"{stack}/{chip}/{kind}" for stack in stacks for chip in chips)
    return next(known[name] for name in (*names, f"{EVERY}/{EVERY}/usual") if name in known)


def _errors(situation: Situation, stack: str) -> dict[str, Any]:
    """Of the stack's own runs where enough groups were left out, else of all stacks."""
    known = _file()["errors"][situation]
    own = known.get(stack)
    name = stack if own is not None and own["groups"] >= LEAST_GROUPS else EVERY
    return {"stack": name, **known[name]}


def _of_memory(stack: str) -> MeasuredAccuracy:
    known = _file()["memory"]
    name = stack if stack in known else EVERY
    accuracy = known[name]
    return MeasuredAccuracy(
        what="memory",
        stack=name,
        situation=Situation.LAYOUT if name == stack else Situation.STACK,
        rows=int(accuracy["rows"]),
        groups=1,
        median=accuracy["median"],
        p90=accuracy["p90"],
    )


@cache
def _measured() -> dict[str, dict[str, MeasuredRuns]]:
    return {
        stack: {
            chip: MeasuredRuns(
                formats=frozenset(known["formats"]),
                models=frozenset(known["models"]),
                devices=frozenset(known["devices"]),
            )
            for chip, known in chips.items()
        }
        for stack, chips in _file()["measured"].items()
    }


@cache
def _file() -> dict[str, Any]:
    text = (files("redline.planner.train.search") / "trust.json").read_text(encoding="utf-8")
    accuracies: dict[str, Any] = json.loads(text)
    return accuracies
