"""How far a predicted peak of memory can be trusted: its interval, and the chance that it exceeds the device.

Both are measured, not assumed: see `measured` and `unmeasured` in `memory.json`. The chance is a normal curve over the
logarithm of the predicted peak over the device's memory. It covers what a prediction misses and what nobody predicts,
such as an allocator that fragments.
"""

import numpy as np

from redline.model.model import Column, Number
from redline.planner.train.memory.footprint import memory_constants


def oom_probability(peak_bytes: Number, device_bytes: Number, stack: str) -> Column:
    """Of a job with this predicted peak, on a device with this published memory.

    The only failures with all their layouts are those of one stack, so that all measured stacks share its curve. Of
    others nothing is fitted, so that theirs is flatter, and begins earlier.
    """
    curve = _curve(stack)
    ratio = np.asarray(peak_bytes, np.float64) / device_bytes
    return _normal(np.log(np.maximum(ratio, 1e-9) / curve["middle"]) / curve["deviation"])


def peak_interval(peak_bytes: Number, stack: str) -> tuple[Column, Column]:
    """The 80 % interval."""
    own = memory_constants()["stacks"].get(stack, {})
    spread = own if "low" in own else _curve(stack)
    peak = np.asarray(peak_bytes, np.float64)
    return peak * spread["low"], peak * spread["high"]


def _curve(stack: str) -> dict[str, float]:
    constants = memory_constants()
    own = constants["stacks"].get(stack, {})
    curve: dict[str, float] = constants["measured" if own.get("fitted") else "unmeasured"]
    return curve


def _normal(deviations: Column) -> Column:
    """The normal distribution, by a logistic curve that is off by 0.0002 at most and needs no table."""
    curve: Column = 1.0 / (1.0 + np.exp(-np.clip(1.5976 * deviations + 0.070566 * deviations**3, -50.0, 50.0)))
    return curve
