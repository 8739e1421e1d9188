"""How far a predicted step can be trusted: its interval, and how the same model fared on runs it was not fitted to."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from redline.hardware.machine import Machine
from redline.planner.train.search.training_plan import MeasuredAccuracy
from redline.planner.train.stacks import DEFAULT_STACK, spread

EVERY = "all"


def spread_of(stack: str, machine: Machine, *, unusual: bool = False) -> tuple[float, float]:
    """The 80 % interval of the step time, as multiples of the predicted one. Mixtures of experts are unusual."""
    low, high = spread(stack, unusual=unusual)
    if stack != DEFAULT_STACK and _is_measured(machine):
        return low, high
    # What this software does on this machine is not known, so runs of all software count.
    usual = _file()["usual_spread"]
    return min(low, usual["low"]), max(high, usual["high"])


def evidence(stack: str, machine: Machine) -> tuple[MeasuredAccuracy, ...]:
    """Of step time and of memory: runs of the stack itself, or of all where it has none, or none on such a machine."""
    own = stack if _is_measured(machine) else EVERY
    held_out = _file()["held_out"]
    return (_evidence("step", held_out["step"], own), _evidence("memory", held_out["memory"], stack))


def _is_measured(machine: Machine) -> bool:
    return (machine.base or machine.name) in _file()["machines"]


def _evidence(what: str, known: dict[str, dict[str, float]], stack: str) -> MeasuredAccuracy:
    name = stack if stack in known else EVERY
    accuracy = known[name]
    return MeasuredAccuracy(
        what=what, stack=name, rows=int(accuracy["rows"]), median=accuracy["median"], p90=accuracy["p90"]
    )


@cache
def _file() -> dict[str, Any]:
    text = (files("redline.planner.train.search") / "trust.json").read_text(encoding="utf-8")
    accuracies: dict[str, Any] = json.loads(text)
    return accuracies
