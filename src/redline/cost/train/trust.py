"""How far a predicted step can be trusted: its interval, and how the same model fared on runs it was not fitted to."""

import json
from functools import cache
from importlib.resources import files

from redline.cost.train.planned import Evidence
from redline.cost.train.stacks import spread
from redline.model.counted import CountedModule
from redline.model.model import Model

EVERY = "all"
# Modules of users were never held against measured runs.
GUESS = (0.5, 2.0)


def spread_of(subject: Model | CountedModule, stack: str) -> tuple[float, float]:
    """Eight of ten measured steps lie between these two multiples of the predicted one."""
    if isinstance(subject, CountedModule):
        return GUESS
    return spread(stack, unusual=bool(subject.moe_layers))


def evidence(stack: str) -> tuple[Evidence, ...]:
    """Of step time and of memory: runs of the stack itself, or of all where it has none."""
    return tuple(_evidence(what, known, stack) for what, known in _file().items())


def _evidence(what: str, known: dict[str, dict[str, float]], stack: str) -> Evidence:
    name = stack if stack in known else EVERY
    found = known[name]
    return Evidence(what=what, stack=name, rows=int(found["rows"]), median=found["median"], p90=found["p90"])


@cache
def _file() -> dict[str, dict[str, dict[str, float]]]:
    text = (files("redline.cost.train") / "trust.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, dict[str, float]]] = json.loads(text)["held_out"]
    return found
