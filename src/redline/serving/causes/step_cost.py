"""What a step takes however little is in it: of the line through steps with little and with much."""

import numpy as np

from redline.timeline.table import I64, Column

LEAST_STEPS = 8  # to tell what one more costs
LEAST_FIXED = 0.25  # of a full step that does not grow: below, putting more into it gains little
_LITTLE, _MUCH = 0.5, 0.75  # of the limit


def fixed_ns(length_ns: Column, amount: I64, limit: float) -> float | None:
    """None where steps are too much alike to tell."""
    little, much = amount <= _LITTLE * limit, amount >= _MUCH * limit
    if little.sum() < LEAST_STEPS or much.sum() < LEAST_STEPS:
        return None
    low, high = float(np.median(amount[little])), float(np.median(amount[much]))
    at_low, at_high = float(np.median(length_ns[little])), float(np.median(length_ns[much]))
    return max(at_low - low * (at_high - at_low) / (high - low), 0.0)
