"""How far a predicted peak of memory can be trusted: its interval, and the chance that it exceeds the device.

Both are measured, not assumed: see `measured` and `unmeasured` in `memory.json`. The chance is a normal curve over the
logarithm of the predicted peak over the device's memory. It covers what a prediction misses and what nobody predicts,
such as an allocator that fragments.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from redline.model.model import Column, Number
from redline.planner.train.memory.footprint import memory_constants

Constants = Mapping[str, Any]


def oom_probability(peak_bytes: Number, device_bytes: Number, stack: str, constants: Constants | None = None) -> Column:
    """Of a job with this predicted peak, on a device with this published memory.

    The only failures with all their layouts are those of one stack, so that all measured stacks share its curve. Stacks
    that only their code is known of have curves of their own where layouts of theirs ran: these bound what the code
    leaves open. All others share one that is flatter, and begins earlier.
    """
    curve = _curve(stack, constants or memory_constants())
    ratio = np.asarray(peak_bytes, np.float64) / device_bytes
    return _normal(np.log(np.maximum(ratio, 1e-9) / curve["middle"]) / curve["deviation"])


def peak_interval(peak_bytes: Number, stack: str, constants: Constants | None = None) -> tuple[Column, Column]:
    """The 80 % interval."""
    spread = _spread(stack, constants or memory_constants())
    peak = np.asarray(peak_bytes, np.float64)
    return peak * spread["low"], peak * spread["high"]


def _curve(stack: str, constants: Constants) -> dict[str, float]:
    own = constants["stacks"].get(stack, {})
    curve: dict[str, float] = own if "middle" in own else constants["measured" if own.get("fitted") else "unmeasured"]
    return curve


def _spread(stack: str, constants: Constants) -> dict[str, float]:
    own = constants["stacks"].get(stack, {})
    spread: dict[str, float] = own if "low" in own else constants["measured" if own.get("fitted") else "unmeasured"]
    return spread


def _normal(deviations: Column) -> Column:
    """The normal distribution, by a logistic curve that is off by 0.0002 at most and needs no table."""
    curve: Column = 1.0 / (1.0 + np.exp(-np.clip(1.5976 * deviations + 0.070566 * deviations**3, -50.0, 50.0)))
    return curve
