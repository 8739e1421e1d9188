"""How far a predicted peak of memory can be trusted: its interval, and the chance that it exceeds the device.

A measured peak is lognormal around the predicted one, with the spread of the stack's held-out residuals.
"""

import math

import numpy as np

from redline.cost.train.outcome import Column
from redline.model.model import Number

SPREAD = 0.10
# The interval holds eight of ten: a normal variable lies within this many deviations with probability 0.8.
EIGHTY = 1.2816


def chance_out_of_memory(peak_bytes: Number, device_bytes: Number, stack: str) -> Column:
    """That the measured peak is above what the device has."""
    deviations = np.log(np.asarray(device_bytes, np.float64) / peak_bytes) / SPREAD
    return 1.0 - _normal(deviations)


def peak_interval(peak_bytes: Number, stack: str) -> tuple[Column, Column]:
    """Eight of ten measured peaks lie between these two."""
    peak = np.asarray(peak_bytes, np.float64)
    return peak * math.exp(-EIGHTY * SPREAD), peak * math.exp(EIGHTY * SPREAD)


def _normal(deviations: Column) -> Column:
    """The normal distribution, by a logistic curve that is off by 0.01 at most and needs no table."""
    curve: Column = 1.0 / (1.0 + np.exp(-np.clip(1.5976 * deviations + 0.070566 * deviations**3, -50.0, 50.0)))
    return curve
