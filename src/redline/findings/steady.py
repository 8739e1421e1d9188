"""Steps of usual length: those that warming up, saving or a pause did not stretch."""

import numpy as np

from redline.analysis.rank.activity import Mask
from redline.timeline.table import I64

_USUAL = 1.3  # times the median: longer steps are not steady ones


def is_usual(steps_ns: I64) -> Mask:
    """Of each step of a rank, by its length."""
    usual: Mask = steps_ns <= _USUAL * np.median(steps_ns) if len(steps_ns) else np.zeros(0, bool)
    return usual
